"""A folder of small files that appear whole or not at all."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import pyarrow as pa
import pyarrow.fs as pafs

from anabranch.errors import EngineError, PlanError

MAP_FROM_BYTES: Final = 1 << 20
"""Files up to this size are read into memory."""

_PIECE: Final = 1 << 22

_SERIAL: Final = itertools.count()
PARTIAL: Final = ".partial-"
"""What the names of files begin with that are being written."""


class Folder(ABC):
    """Where a part of a query keeps its files, on a local disk or in a remote file system.

    A write becomes visible under its name at once and completely. Files are not forced to the
    device: they survive the death of any process, as Spark's own checkpoint files do.
    """

    __slots__ = ()

    @staticmethod
    def at(path: str) -> Folder:
        """The folder at a path or URI; it need not exist yet."""
        if "://" in path and not path.startswith("file://"):
            try:
                system, inner = pafs.FileSystem.from_uri(path)
            except (pa.ArrowException, OSError) as problem:
                raise PlanError(
                    f"the file system '{path.partition('://')[0]}' cannot be opened",
                    where=f"{path}: {str(problem).splitlines()[0][:200]}",
                    hint="pyarrow opens it: check the address, what is installed for it, and the "
                    "credentials",
                ) from None
            return RemoteFolder(system, inner)
        return LocalFolder(Path(path.removeprefix("file://")).absolute())

    @property
    @abstractmethod
    def path(self) -> str:
        """What errors call the folder, and the key under which its files are cached."""

    @abstractmethod
    def child(self, name: str) -> Folder:
        """A folder in this one."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of all files, none if there is no such folder."""

    @abstractmethod
    def folders(self) -> list[str]:
        """The names of all folders in this one."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """The content of a file, or None if there is none."""

    @abstractmethod
    def write(self, name: str, data: bytes | pa.Buffer, *, mark: str = "") -> None:
        """Put a file in place; `mark` goes into the name it has while it is being written."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file if it is there."""

    @abstractmethod
    def open(self, name: str) -> tuple[pa.NativeFile, int] | None:
        """A file for reading (mapped into memory where that can be) and its size."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Remove a folder in this one with everything in it, if it is there."""

    def sweep(self) -> None:
        """Remove what interrupted writes have left; nobody else may be writing here."""
        for name in self.names():
            if name.startswith(PARTIAL):
                self.remove(name)

    def read_json(self, name: str) -> Any | None:
        """The content of a JSON file, or None if there is none.

        Raises:
            EngineError: It is not what was written.
        """
        data = self.read(name)
        if data is None:
            return None
        text, _, seal = data.partition(b"\n")
        try:
            if seal and int(seal, 16) != zlib.crc32(text):
                raise ValueError
            return json.loads(text)
        except ValueError:
            raise EngineError(
                "a file of the checkpoint is damaged",
                where=f"{self.path}/{name}",
                hint="restore the checkpoint from a copy, or start the query with a new checkpoint",
            ) from None

    def write_json(self, name: str, content: Any, *, mark: str = "", seal: bool = True) -> None:
        """Put a JSON file in place; a checksum in a second line tells when it is damaged."""
        text = json.dumps(content, separators=(",", ":")).encode()
        data = text + b"\n%08x" % zlib.crc32(text) if seal else text
        self.write(name, data, mark=mark)


@final
@dataclass(frozen=True, slots=True)
class LocalFolder(Folder):
    """A folder on a disk of this machine."""

    root: Path

    @property
    def path(self) -> str:
        """The absolute path."""
        return str(self.root)

    def child(self, name: str) -> Folder:
        """A folder in this one."""
        return LocalFolder(self.root / name)

    def names(self) -> list[str]:
        """The names of all files, none if there is no such folder."""
        try:
            return os.listdir(self.root)  # noqa: PTH208 (names, not paths: this runs in every batch)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def folders(self) -> list[str]:
        """The names of all folders in this one."""
        return [name for name in self.names() if (self.root / name).is_dir()]

    def read(self, name: str) -> bytes | None:
        """The content of a file, or None if there is none."""
        try:
            return (self.root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, data: bytes | pa.Buffer, *, mark: str = "") -> None:
        """Put a file in place by renaming it."""
        partial = self.root / f"{PARTIAL}{mark}-{os.getpid()}-{next(_SERIAL)}"
        try:
            file = partial.open("wb", buffering=0)
        except FileNotFoundError:
            self.root.mkdir(parents=True, exist_ok=True)
            file = partial.open("wb", buffering=0)
        with file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
        partial.rename(self.root / name)

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        try:
            os.unlink(f"{self.root}/{name}")  # noqa: PTH108 (merges remove dozens of files)
        except FileNotFoundError:
            return

    def drop(self, name: str) -> None:
        """Remove a folder in this one with everything in it, if it is there."""
        shutil.rmtree(self.root / name, ignore_errors=True)

    def open(self, name: str) -> tuple[pa.NativeFile, int] | None:
        """The file mapped into memory, and its size."""
        try:
            size = (self.root / name).stat().st_size
            if not size:
                return pa.BufferReader(b""), 0
            return pa.memory_map(str(self.root / name)), size
        except FileNotFoundError:
            return None


@final
@dataclass(frozen=True, slots=True)
class RemoteFolder(Folder):
    """A folder in a file system that pyarrow knows (HDFS, S3 and the like)."""

    system: pafs.FileSystem
    root: str

    @property
    def path(self) -> str:
        """The kind of file system and the path in it."""
        return f"{self.system.type_name}:{self.root}"

    def child(self, name: str) -> Folder:
        """A folder in this one."""
        return RemoteFolder(self.system, f"{self.root}/{name}")

    def names(self) -> list[str]:
        """The names of all files, none if there is no such folder."""
        found = self.system.get_file_info(pafs.FileSelector(self.root, allow_not_found=True))
        return [info.base_name for info in found]

    def folders(self) -> list[str]:
        """The names of all folders in this one."""
        found = self.system.get_file_info(pafs.FileSelector(self.root, allow_not_found=True))
        return [info.base_name for info in found if info.type == pafs.FileType.Directory]

    def read(self, name: str) -> bytes | None:
        """The content of a file, or None if there is none."""
        opened = self.open(name)
        return None if opened is None else bytes(opened[0].read())

    def write(self, name: str, data: bytes | pa.Buffer, *, mark: str = "") -> None:
        """Put a file in place by moving it (object stores show a file when it is complete)."""
        self.system.create_dir(self.root, recursive=True)
        partial = f"{self.root}/{PARTIAL}{mark}-{os.getpid()}-{next(_SERIAL)}"
        with self.system.open_output_stream(partial) as out:
            out.write(data)
        self.system.move(partial, f"{self.root}/{name}")

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        try:
            self.system.delete_file(f"{self.root}/{name}")
        except FileNotFoundError:
            return

    def drop(self, name: str) -> None:
        """Remove a folder in this one with everything in it, if it is there."""
        try:
            self.system.delete_dir(f"{self.root}/{name}")
        except FileNotFoundError:
            return

    def open(self, name: str) -> tuple[pa.NativeFile, int] | None:
        """The file and its size; a large one by way of the disk of this machine.

        So it takes no more memory than is used of it, as a file that was there from the start.
        """
        try:
            file = self.system.open_input_file(f"{self.root}/{name}")
        except FileNotFoundError:
            return None
        size: int = file.size()
        return (file if size <= MAP_FROM_BYTES else _spilled(file)), size


def _spilled(file: pa.NativeFile) -> pa.MemoryMappedFile:
    """A copy that has no name any more, and is gone when nobody looks at it."""
    with tempfile.NamedTemporaryFile(prefix="anabranch-run-") as copy:
        shutil.copyfileobj(file, copy, _PIECE)
        copy.flush()
        return pa.memory_map(copy.name)
