"""Which files a source has."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Container, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from anabranch.errors import StreamError
from anabranch.runtime.sources.spec import FileForm

LOG: Final = "_log"
"""The folder in a log folder that says which files count."""

ABOUT: Final = "stream.json"
"""The file in there that says what the log is about."""

_NUMBERS: Final = re.compile("([0-9]+)")
_COMPRESSED: Final = (".gz", ".bz2", ".zst", ".lz4", ".br")

ROWS_FOLDER: Final = "anabranch-rows"
"""How the name of the folder with rows of this process begins; files are named by their content."""

DELTA_FOLDER: Final = "anabranch-delta"
"""The folder with versions of Delta tables."""

FORMS: Final[dict[str, FileForm]] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
"""What files hold, by the end of their name; elements as JSON lines are told apart later."""


def form_of(file: Path) -> FileForm | None:
    """What a file holds, as its name says (`.csv.gz` is CSV)."""
    suffixes = [suffix for suffix in file.suffixes if suffix in FORMS]
    return FORMS[suffixes[-1]] if suffixes else None


def list_files(path: str, form: FileForm | None = None, done: Container[str] = ()) -> list[Path]:
    """The files of a source, by name; of a folder only those that hold what is asked for.

    Those that are `done` are left out before anything else is made of their names: a folder may
    hold 100,000 files, of which one is new.

    Numbers in names count as numbers: `2.csv` comes before `10.csv`.

    Hidden files and those that begin with `_` are left out, as Spark does, so that a writer can
    prepare a file out of sight and rename it. Within one look, files count in the order of their
    names; those that turn up later come later.
    """
    root = Path(path)
    if root.is_file():
        return [] if str(root) in done else [root]
    if root.is_dir():
        kind = "json" if form == "lines" else form
        found = [Path(name) for name in _walk(str(root)) if name not in done]
        files = (file for file in found if kind is None or form_of(file) == kind)
    else:
        names = glob.glob(path, recursive=True)  # noqa: PTH207
        found = [Path(name) for name in names if name not in done]
        files = (file for file in found if is_visible(file.name) and file.is_file())
    # A path may be written in two ways, `./1.csv` and `1.csv`: what counts is how a Path has it.
    return sorted((file for file in files if str(file) not in done), key=by_name)


def by_name(file: Path) -> tuple[list[str | int], str]:
    """The key that orders files by name, folder by folder, with numbers in them by their value.

    The text itself decides between `2` and `02`. What has been planned is written down file by
    file, so a checkpoint that began with another order resumes: the rest is read in this one.

    >>> names = ["a/10.csv", "a/9.csv", "a-1/1.csv", "a/09.csv"]
    >>> [str(file) for file in sorted(map(Path, names), key=by_name)]
    ['a/09.csv', 'a/9.csv', 'a/10.csv', 'a-1/1.csv']
    """
    # With the lowest of all characters between them, folders are compared name by name.
    text = str(file).replace(os.sep, "\0")
    # Texts and numbers alternate, so that only like is compared with like.
    return [int(part) if part.isdecimal() else part for part in _NUMBERS.split(text)], text


def demand_files(path: str, form: FileForm | None = None) -> list[Path]:
    """The files of a source, at least one.

    Raises:
        StreamError: There is none; with the nearest name.
    """
    found = list_files(path, form)
    if found:
        return found
    root = Path(path)
    if root.is_dir():
        hint = "put files there first, or declare the schema"
        raise StreamError("the folder holds no files", where=path, hint=hint)
    if glob.has_magic(path):
        hint = "check the pattern, or declare the schema if files will appear later"
        raise StreamError("no file matches the pattern", where=path, hint=hint)
    there = [entry.name for entry in root.parent.iterdir()] if root.parent.is_dir() else []
    near = get_close_matches(root.name, there, 1)
    hint = f"did you mean '{near[0]}'?" if near else "check the path and the working folder"
    raise StreamError("no such file or folder", where=path, hint=hint)


def is_log_folder(path: str) -> bool:
    """Whether a path is a log folder, written by a query."""
    return (Path(path) / LOG).is_dir()


def is_own_file(path: str) -> bool:
    """Whether a file was written by us, under a name that says what is in it.

    It is the same file when it is written again.
    """
    return any(part.startswith((ROWS_FOLDER, DELTA_FOLDER)) for part in Path(path).parent.parts)


def is_compressed(file: Path) -> bool:
    """Whether a text file has no positions in it."""
    return file.suffix in _COMPRESSED


def _walk(folder: str) -> Iterator[str]:
    """All visible files below a folder; it runs before every batch, so without a call per file."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not is_visible(entry.name):
                continue
            if entry.is_dir():
                yield from _walk(entry.path)
            else:
                yield entry.path


def is_visible(name: str) -> bool:
    """Whether a file or folder counts: names with `_` or `.` in front are out of sight."""
    return not name.startswith(("_", "."))
