"""Find the copies of a stream, and see what each of them is."""

from __future__ import annotations

import glob
import json
from dataclasses import dataclass
from pathlib import Path
from typing import final

import pyarrow as pa

from anabranch.errors import EngineError, StreamError
from anabranch.model.clock import Clock
from anabranch.model.files.stream_parquet import describe_parquet, plain_type
from anabranch.runtime.sources.files.listing import (
    ABOUT,
    LOG,
    form_of,
    is_compressed,
    is_log_folder,
    is_visible,
)
from anabranch.runtime.sources.files.log_records import (
    NOTHING_KNOWN,
    LogAbout,
    LogProperties,
    log_about,
)
from anabranch.runtime.sources.files.units import log_size
from anabranch.runtime.sources.spec import FileForm


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a copy is at the moment.

    Attributes:
        form: A log, element Parquet, or elements as JSON lines.
        size: How many batches or bytes it has.
        identity: What tells it from one that was made anew in the same place.
        since: It vouches for events that end at or after this instant; None: for all.
        properties: What it says of its stream.
    """

    form: FileForm
    size: int
    identity: str
    since: int | None = None
    properties: LogProperties = NOTHING_KNOWN


def list_copies(path: str) -> dict[str, Path]:
    """The copies that a path stands for, by name: log folders and stream files.

    They are what a pattern matches, what lies in a folder, or the only one that is named. A copy is
    called by its path behind the part of the pattern that is fixed.
    """
    root = Path(path)
    if is_log_folder(path) or root.is_file():
        return {root.name: root}
    if root.is_dir():
        found = list(root.iterdir())
    else:
        found = [Path(name) for name in glob.glob(path, recursive=True)]  # noqa: PTH207
        root = _fixed(path)
    copies = sorted(each for each in found if is_visible(each.name) and _is_copy(each))
    return {str(each.relative_to(root)): each for each in copies}


def measure(path: Path) -> Measured:
    """What a copy is.

    Raises:
        OSError: It cannot be looked at.
        StreamError: It is not complete, or not a copy of a stream.
    """
    if path.is_dir():
        # A writer that promises less says so before it commits: what is listed was promised.
        size = log_size(path)
        about = _about(path)
        identity = f"log {about.query} {about.made}".rstrip()
        return Measured(
            form="log",
            size=size,
            identity=identity,
            since=about.since,
            properties=about.properties or NOTHING_KNOWN,
        )
    status = path.stat()
    form: FileForm = "parquet" if form_of(path) == "parquet" else "lines"
    whole = form == "parquet" or is_compressed(path)
    # What is complete from the beginning and changes all the same was made anew.
    made = f" {status.st_size} {status.st_mtime_ns}" if whole else ""
    return Measured(form=form, size=status.st_size, identity=f"{form}{made}")


def form_of_copy(path: Path, form: FileForm) -> tuple[pa.Schema, Clock] | None:
    """The payload columns of a copy, and how it counts time.

    None for JSON lines: only reading tells their types; times are microseconds or numbers.

    Raises:
        OSError: It cannot be looked at.
        StreamError: It is not complete, or not a copy of a stream.
    """
    if form == "parquet":
        return describe_parquet(path)
    if form != "log":
        return None
    about = _about(path)
    return about.payload, about.clock


def misfit(found: tuple[pa.Schema, Clock] | None, schema: pa.Schema, clock: Clock) -> str:
    """What is wrong with a copy; nothing where columns and times are those of the stream."""
    if found is None:
        return ""
    columns, counted = found
    if counted.timestamps != clock.timestamps:
        kinds = ("timestamps", "whole numbers")
        first, other = kinds if counted.timestamps else kinds[::-1]
        return f"its times are {first}, not {other}"
    if counted.chronon != clock.chronon and (counted.chronon or counted.timestamps):
        return f"its chronon is {counted.label}, not {clock.label or 'unknown'}"
    there = {field.name: plain_type(field.type) for field in columns}
    for field in schema:
        if field.name not in there:
            return f"it has no column '{field.name}'"
        if there[field.name] != plain_type(field.type):
            return f"its column '{field.name}' is {there[field.name]}, not {field.type}"
    extra = [name for name in there if name not in schema.names]
    return f"it has a column '{extra[0]}' that the stream does not have" if extra else ""


def _about(path: Path) -> LogAbout:
    file = path / LOG / ABOUT
    try:
        return log_about(json.loads(file.read_bytes()), str(file))
    except ValueError as problem:
        raise _unclear(path, str(problem)) from None
    except EngineError as problem:
        raise _unclear(path, problem.what) from None


def _unclear(path: Path, problem: str) -> StreamError:
    return StreamError(
        "the description in the log is damaged",
        where=f"{path / LOG / ABOUT}: {problem[:120]}",
        hint="let the query that writes the log write it again",
    )


def _is_copy(path: Path) -> bool:
    if path.is_dir():
        return is_log_folder(str(path))
    return form_of(path) in ("json", "parquet")


def _fixed(path: str) -> Path:
    """The folder in which a pattern begins to be one."""
    root = Path(path)
    while glob.has_magic(str(root)):
        root = root.parent
    return root
