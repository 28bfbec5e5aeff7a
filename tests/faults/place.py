"""A folder whose disk can be filled, and made read-only, while a query writes there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import final

_ROOM = "size=512m"


@final
class Place:
    """A file system in memory where one may be mounted, else a plain folder.

    Only the first can be full or read-only; root does not care about permissions.
    """

    def __init__(self, path: Path, *, mounted: bool) -> None:
        self.path = path
        self.mounted = mounted

    def fill(self) -> None:
        """No room is left."""
        self._remount("size=4k")

    def protect(self) -> None:
        """Nothing can be written."""
        # A file that is open for writing would keep the whole from becoming read-only.
        self._remount("ro")

    def release(self) -> None:
        """As it was."""
        self._remount(f"rw,{_ROOM}")

    def _remount(self, options: str) -> None:
        assert self.mounted
        command = ["mount", "-o", f"remount,{options}", str(self.path)]
        subprocess.run(command, check=True, capture_output=True)


@contextmanager
def new_place() -> Iterator[Place]:
    """A place that is gone after the block."""
    path = Path(tempfile.mkdtemp(prefix="anabranch-faults-"))
    mounted = os.geteuid() == 0 and _mount(path)
    try:
        yield Place(path, mounted=mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=False, capture_output=True)
        shutil.rmtree(path, ignore_errors=True)


def _mount(path: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", _ROOM, "anabranch", str(path)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
