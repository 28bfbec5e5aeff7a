"""A folder whose disk can be filled, and closed to everybody, while a query writes there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import final

_ROOM = "size=512m"
_PIECE = bytes(1 << 20)


@final
class Place:
    """A file system in memory where one may be mounted, else a plain folder.

    Only the first can be full. Root does not care about permissions, but about folders that are
    immutable.
    """

    def __init__(self, path: Path, *, mounted: bool) -> None:
        self.path = path
        self.mounted = mounted

    def fill(self) -> None:
        """No room is left."""
        assert self.mounted
        with suppress(OSError), self._filler.open("wb", buffering=0) as filler:
            while filler.write(_PIECE):
                pass

    def protect(self) -> None:
        """No file can be made, renamed or removed."""
        assert self.mounted
        folders = [str(each) for each in self.path.rglob("*") if each.is_dir()]
        subprocess.run(["chattr", "+i", *folders], check=True, capture_output=True)

    def release(self) -> None:
        """As it was."""
        self._filler.unlink(missing_ok=True)
        subprocess.run(["chattr", "-R", "-i", str(self.path)], check=True, capture_output=True)

    @property
    def _filler(self) -> Path:
        return self.path / "filler"


@contextmanager
def new_place() -> Iterator[Place]:
    """A place that is gone after the block."""
    root = Path(tempfile.mkdtemp(prefix="anabranch-faults-"))
    path = root / "disk"
    path.mkdir()
    mounted = os.geteuid() == 0 and _mount(path)
    try:
        yield Place(path, mounted=mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=False, capture_output=True)
        shutil.rmtree(root, ignore_errors=True)


def _mount(path: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", _ROOM, "anabranch", str(path)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
