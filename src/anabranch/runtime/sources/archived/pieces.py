"""What an archive knows of a batch: the pieces that were read in it, and their times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final, final

import numpy as np

from anabranch.algebra.analysis.spans import EVERYTHING, Span
from anabranch.model.batch import EventBatch
from anabranch.model.record import OMITTED
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.sources.files.reader import FileSplit

LATE_BUCKET: Final = "-late.parquet"
"""How names of buckets end whose rows came too late: they are corrections of what came before."""

NO_TIME: Final[Span] = (FOREVER, BEGINNING)
"""The times of no rows: they begin after everything and end before it."""


@final
@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that came together, how to read them again, and their times.

    Attributes:
        split: What to read: of a file of the source, or of a bucket of the archive, whose path is
            then relative to the archive.
        first: The least start of its rows, in chronons of the stream.
        last: The greatest end that one of its rows moves from or to.
        rows: How many rows it has.
    """

    row: ClassVar[bool] = True

    split: FileSplit
    first: int
    last: int
    rows: int

    @staticmethod
    def of(split: FileSplit, batches: Iterable[EventBatch]) -> Piece:
        """A piece with these rows."""
        rows, first, last = 0, int(FOREVER), int(BEGINNING)
        for batch in batches:
            low, high = hull(batch)
            rows, first, last = rows + len(batch), min(first, low), max(last, high)
        return Piece(split, first, last, rows)

    @property
    def is_late(self) -> bool:
        """Whether it is a bucket of rows that came too late."""
        return self.split.path.endswith(LATE_BUCKET)

    def overlaps(self, span: Span) -> bool:
        """Whether one of its rows may hold at one of these instants."""
        return self.first < span[1] and self.last > span[0]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedBatch:
    """What came of one source in one batch.

    Attributes:
        batch: The number of the batch.
        pieces: What was read, in the order of the source.
        promised: What the source had promised after the batch.
        known_at: When the batch became known, in microseconds since 1970; 0: nobody said.
    """

    batch: int
    pieces: tuple[Piece, ...]
    promised: int
    known_at: int = field(default=0, metadata=OMITTED)

    @property
    def rows(self) -> int:
        """How many rows came."""
        return sum(piece.rows for piece in self.pieces)


def hull(batch: EventBatch) -> Span:
    """The least start and the greatest end of some rows; `NO_TIME` of none.

    An end that moves back counts where it was: the snapshots in between change.
    """
    if not len(batch):
        return NO_TIME
    last = max(int(batch.end.max()), int(batch.new_end.max()))
    return Time(int(batch.start.min())), Time(last)


def inside(batch: EventBatch, span: Span) -> EventBatch:
    """The rows that hold, or held before they moved, at one of these instants; whole rows."""
    first, last = span
    if span == EVERYTHING or not len(batch):
        return batch
    ends = batch.new_end if batch.end is batch.start else np.maximum(batch.end, batch.new_end)
    found = np.flatnonzero((batch.start < np.int64(last)) & (ends > np.int64(first)))
    if len(found) and found[-1] - found[0] + 1 == len(found):
        # As a rule rows come in the order of time: then nothing has to be copied.
        return batch.between(int(found[0]), int(found[-1]) + 1)
    return batch.take(found)
