"""Sources that are read again: from their files, or from an archive of what came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, final

import numpy as np

from anabranch.algebra.source import Source
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.coarser import chronon_of_time
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.sources.files.earlier_parts import promise_of
from anabranch.runtime.sources.files.next_units import ListedFile, candidates
from anabranch.runtime.sources.files.reader import WHOLE
from anabranch.runtime.sources.files.units import Position, Unit
from anabranch.runtime.sources.late import judge
from anabranch.runtime.sources.spec import FileSource, Promise
from anabranch.runtime.workers.source_task import read_pieces

Positions = Mapping[str, Mapping[str, Position]]
"""By source and file, how far it has been read."""

ROW_BYTES: Final = 64
"""The assumed length of a row in a file that does not tell its rows."""


@final
@dataclass(frozen=True, slots=True)
class ReadSoFar:
    """How far a query has read: in its files, and the first batch that has not been done."""

    positions: Positions
    batch: int


@final
@dataclass(frozen=True, slots=True)
class ArchivedRows:
    """A source whose rows are read from its archive.

    Attributes:
        promise: What the source promises.
        archive: What came of it.
        ordered: Whether its rows have positions; else lateness counts from batch to batch.
        has_stables: Whether stable points stand among its rows; the archive does not tell where.
    """

    promise: Promise
    archive: Archive
    ordered: bool
    has_stables: bool = False


Rereadable = FileSource | ArchivedRows
"""A source that can be read again."""


class Reading(Protocol):
    """A source on its way from the beginning to the present."""

    rows: int
    """How many rows have been read."""

    promised: Time
    """What it had promised where it has been read up to."""

    def pieces(self, to: ReadSoFar) -> Iterator[EventBatch]:
        """Read on, up to where the query has read: the rows that were taken in, and matter."""


def reading_of(source: Rereadable, leaf: Source, first: Time) -> Reading:
    """Reads a source again, as far as rows matter that hold from an instant on."""
    if isinstance(source, ArchivedRows):
        return ArchiveReading(source, leaf, first)
    return FileReading(source, leaf, first)


@final
@dataclass(slots=True)
class FileReading:
    """The files of a source."""

    source: FileSource
    leaf: Source
    first: Time
    positions: Mapping[str, Position] = field(default_factory=dict)
    promised: Time = BEGINNING
    rows: int = 0

    def pieces(self, to: ReadSoFar) -> Iterator[EventBatch]:
        """Read on, up to where the query has read."""
        source, until = self.source, to.positions.get(self.source.name, {})
        for unit in units_between(source, self.positions, until):
            if is_over(source, self.leaf, unit, self.first):
                promises = [promise_of(source, split) for split in unit.splits]
                known = [promised for promised in promises if promised is not None]
                self.promised = Time(max([self.promised, *known]))
                continue
            for arrivals, where in read_pieces(source, unit.splits, source.schema.names):
                yield self._judged(arrivals, where)
        self.positions = dict(until)

    def _judged(self, arrivals: Arrivals, where: str) -> EventBatch:
        verdict = judge(self.source.promise, self.promised, arrivals, where=where)
        self.promised = verdict.promised
        self.rows += len(verdict.batch)
        return _of_interest(verdict.batch, self.leaf, self.first)


@final
@dataclass(slots=True)
class ArchiveReading:
    """The archive of a source."""

    source: ArchivedRows
    leaf: Source
    first: Time
    after: int = -1
    promised: Time = BEGINNING
    rows: int = 0

    def pieces(self, to: ReadSoFar) -> Iterator[EventBatch]:
        """Read on, up to where the query has read."""
        archive, promise = self.source.archive, self.source.promise
        for entry in archive.index.entries(after=self.after, upto=to.batch - 1):
            before = self.promised
            for piece in entry.pieces:
                if self.leaf.insert_only and piece.last <= self.first:
                    continue
                for rows in archive.read_piece(piece):
                    arrivals = _as_arrivals(rows)
                    verdict = judge(
                        promise,
                        before,
                        arrivals,
                        where=archive.folder.path,
                        in_order=self.source.ordered,
                    )
                    if self.source.ordered:
                        before = verdict.promised
                    self.rows += len(verdict.batch)
                    yield _of_interest(verdict.batch, self.leaf, self.first)
            # Forever is promised by what ends; then nothing comes behind it.
            self.promised = Time(max(self.promised, entry.promised))
            self.after = entry.batch


def units_between(
    source: FileSource, at: Mapping[str, Position], to: Mapping[str, Position]
) -> Iterator[Unit]:
    """What lies between two positions, file by file in the order in which they were begun."""
    for file, end in to.items():
        start = at.get(file, Position())
        if start == end:
            continue
        size = end.offset
        if end.offset == WHOLE or source.form == "parquet":
            size = Path(file).stat().st_size
        for unit in candidates(source, {file: start}, [ListedFile(Path(file), size)]):
            yield unit
            if unit.after == end:
                break


def is_over(source: FileSource, leaf: Source, unit: Unit, first: Time) -> bool:
    """Whether no row of a piece holds at an instant or later, as its files tell unread."""
    if not (leaf.insert_only and leaf.only_points) or source.stamped or not unit.splits:
        return False
    step = source.promise.step
    return all(
        split.path
        and split.latest is not None
        and chronon_of_time(Time(split.latest), step) < first
        for split in unit.splits
    )


def rows_between(reading: Reading, to: ReadSoFar) -> int:
    """About how many rows a reading would read, without reading them."""
    if isinstance(reading, ArchiveReading):
        entries = reading.source.archive.index.entries(
            after=reading.after, upto=to.batch - 1, span=(reading.first, FOREVER)
        )
        return sum(entry.rows for entry in entries)
    assert isinstance(reading, FileReading)
    source, until = reading.source, to.positions.get(reading.source.name, {})
    if source.form == "parquet":
        units = units_between(source, reading.positions, until)
        return sum(
            unit.rows for unit in units if not is_over(source, reading.leaf, unit, reading.first)
        )
    rows = 0
    for file, end in until.items():
        if end.offset == WHOLE:
            rows += Path(file).stat().st_size // ROW_BYTES
        else:
            rows += end.number - 1
    return rows


def _as_arrivals(rows: EventBatch) -> Arrivals:
    """Rows that an archive has, in the order in which they came."""
    nothing = np.empty(0, np.int64)
    return Arrivals(
        batch=rows,
        position=np.arange(1, len(rows) + 1),
        is_adjust=rows.end != rows.start,
        stables=nothing,
        stable_positions=nothing,
    )


def _of_interest(rows: EventBatch, leaf: Source, first: Time) -> EventBatch:
    return rows.where(rows.new_end > np.int64(first)) if leaf.insert_only else rows
