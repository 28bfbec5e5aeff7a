"""What comes next of a source in files: the pieces that have not been read, up to a limit."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, final

from anabranch.errors import StreamError
from anabranch.runtime.sources.archived.units import archive_size, new_archive_units
from anabranch.runtime.sources.files.delta_table import last_version, new_delta_units, tells_changes
from anabranch.runtime.sources.files.earlier_parts import promises_within
from anabranch.runtime.sources.files.listing import list_files
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.sources.files.reader import WHOLE
from anabranch.runtime.sources.files.units import (
    START,
    Position,
    Unit,
    first_lines,
    log_size,
    new_log_units,
    new_units,
)
from anabranch.runtime.sources.spec import FileSource


@final
@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file, how long it is (a log in batches), and when it was changed, in nanoseconds."""

    path: Path
    size: int
    modified: int | None = None

    @staticmethod
    def at(path: Path) -> ListedFile:
        """The file as it is now."""
        found = path.stat()
        return ListedFile(path, found.st_size, found.st_mtime_ns)


Listing: TypeAlias = list[ListedFile]


def list_all(source: FileSource, done: Container[str] = ()) -> Listing:
    """The files of a source as they are now, without those that are done with."""
    path = Path(source.path)
    if source.form == "log":
        return [ListedFile(path, log_size(path))]
    if source.form == "archive":
        return [ListedFile(path, archive_size(path))]
    if source.form == "delta":
        return [ListedFile(path, last_version(source.path) + 1)]
    return [ListedFile.at(file) for file in list_files(source.path, source.form, done)]


def list_unread(source: FileSource, positions: Mapping[str, Position]) -> Listing:
    """The files of a source that more may come of."""
    return list_all(source, {path for path, at in positions.items() if at.offset == WHOLE})


def cannot_list(source: FileSource, problem: OSError) -> StreamError:
    """What to say where the files of a source cannot be listed."""
    return StreamError(
        f"cannot list the files: {problem.strerror or problem}",
        where=f"source '{source.name}': {problem.filename or source.path}",
        hint="files of a stream must not be removed, and the query needs permission to read them",
    )


def candidates(
    source: FileSource, positions: Mapping[str, Position], listing: Listing
) -> Iterator[Unit]:
    """What has not been read yet, in order.

    Args:
        source: The source.
        positions: By file how far it has been read.
        listing: The files that count.
    """
    shape = source.shape if promises_within(source) else None
    for listed in listing:
        file, size = listed.path, listed.size
        at = positions.get(str(file), START)
        if source.form == "log":
            _demand_properties(source, file)
            yield from new_log_units(file, size, at)
        elif source.form == "archive":
            yield from new_archive_units(file, size, at, source.known, source.within)
        elif source.form == "delta":
            # What ends is one version: that which was there when reading began.
            feed = None if source.ends else tells_changes(source)
            start = None if shape is None else shape.start
            yield from new_delta_units(file, size, at, feed=feed, start=start)
        else:
            yield from new_units(source.form, file, size, at, shape)


def _demand_properties(source: FileSource, log: Path) -> None:
    """Make sure that a log still promises what the plan relies on.

    Raises:
        StreamError: Its query was changed, and promises less now.
    """
    if source.relied_on is None:
        return
    lacks = LogFolder(str(log)).properties().lacks(source.relied_on)
    if lacks:
        raise StreamError(
            f"the stream {lacks}, and the query relies on that",
            where=f"source '{source.name}': {log}",
            hint="the query that writes the log was changed: start this one with a new checkpoint",
        )


@final
@dataclass(frozen=True, slots=True)
class TakenUnits:
    """What goes into a batch.

    Attributes:
        units: The pieces.
        is_all: Whether there is nothing else.
        has_all_files: Whether a further piece would be of one file too many.
    """

    units: list[Unit]
    is_all: bool = False
    has_all_files: bool = False


def take_units(
    source: FileSource, units: Iterable[Unit], rows: int | None, most_files: int | None
) -> TakenUnits:
    """The pieces that fit into a batch of so many rows and files."""
    taken: list[Unit] = []
    files: set[str] = set()
    count = 0
    for unit in units:
        # A unit of a Delta table is part of one of its files.
        file = unit.splits[0].path if unit.splits else unit.file
        if most_files is not None and len(files | {file}) > most_files:
            return TakenUnits(taken, has_all_files=True)
        if rows is not None:
            room = rows - count
            if room <= 0 and unit.rows:
                return TakenUnits(taken)
            piece = first_lines(unit, room) if source.form in ("lines", "json") else unit
            # A piece that has no finer cut goes in whole if it is the first.
            if piece.rows > room and taken:
                return TakenUnits(taken)
            if piece is not unit:
                return TakenUnits([*taken, piece])
        taken.append(unit)
        files.add(file)
        count += unit.rows
    return TakenUnits(taken, is_all=True)
