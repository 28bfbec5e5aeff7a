"""Rows in the order in which they came, with the promises that held when they came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.model.batch import EventBatch, take_rows
from anabranch.model.elements import Adjust, Element, Stable, batch_of
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, FOREVER, Time, TimeArray


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Arrivals:
    """A piece of a stream, element by element.

    Attributes:
        batch: The inserts and adjusts in order; its stable point holds after all of them.
        position: Where each row stands: the line of a text file, the row of a table.
        is_adjust: Which rows were written as an adjust.
        stables: The time of every stable element of the piece, in order.
        stable_positions: Where these stand.
        left_out: So many rows came besides, and do not matter but for their time.
        latest: The largest start of those.
        revisions: The revisions of the piece, in order. Their changes are not in `batch`.
        revision_positions: Where these stand.
    """

    batch: EventBatch
    position: npt.NDArray[np.int64]
    is_adjust: npt.NDArray[np.bool_]
    stables: TimeArray
    stable_positions: npt.NDArray[np.int64]
    left_out: int = 0
    latest: Time = BEGINNING
    revisions: tuple[Revision, ...] = ()
    revision_positions: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def bound(self) -> TimeArray:
        """For each row the stable point that the elements before it, in this piece, have set.

        BEGINNING where there was none yet: what held before the piece is for the caller to know.
        A row that breaks a promise made here has `start < bound` or moves an end below it.
        """
        reached = np.maximum.accumulate(np.r_[np.int64(BEGINNING), self.stables])
        return reached[np.searchsorted(self.stable_positions, self.position)]

    def split(self, rows: int) -> Iterator[Arrivals]:
        """The same in pieces of at most so many rows."""
        if len(self) <= rows:
            yield self
            return
        for first in range(0, len(self), rows):
            last = min(first + rows, len(self))
            # Stables and revisions go with the rows in front of them.
            low = int(self.position[first]) if first else int(BEGINNING)
            high = int(self.position[last]) if last < len(self) else int(FOREVER)
            yield self._between(first, last, low, high)

    def by_revision(self) -> Iterator[Arrivals]:
        """The same in pieces with at most one revision each, which is the first of its piece."""
        if not self.revisions:
            yield self
            return
        cuts = [int(BEGINNING), *self.revision_positions, int(FOREVER)]
        rows = np.searchsorted(self.position, cuts).tolist()
        for piece in range(len(cuts) - 1):
            yield self._between(rows[piece], rows[piece + 1], cuts[piece], cuts[piece + 1])

    def parts(self) -> Iterator[EventBatch | Revision]:
        """Revisions and the rows between them, in their order."""
        for piece in self.by_revision():
            yield from piece.revisions
            yield piece.batch

    def flattened(self) -> Arrivals:
        """The changes of revisions as ordinary rows at the position of their revision.

        So a query reads them: they lie below the stable point, and its policy for late rows
        decides what becomes of them.
        """
        if not self.revisions:
            return self
        changes = [revision.changes for revision in self.revisions]
        counts = [len(batch) for batch in changes]
        position = np.concatenate([self.position, np.repeat(self.revision_positions, counts)])
        withdrawn = [batch.new_end == batch.start for batch in changes]
        is_adjust = np.concatenate([self.is_adjust, *withdrawn])
        order = np.argsort(position, kind="stable")
        batch = EventBatch.concat([self.batch, *changes]).take(order)
        return replace(
            self,
            batch=batch.with_stable(self.batch.stable),
            position=position[order],
            is_adjust=is_adjust[order],
            revisions=(),
            revision_positions=(),
        )

    def without(self, row: int) -> Arrivals:
        """All but one row."""
        keep = np.delete(np.arange(len(self)), row)
        batch = self.batch
        return replace(
            self,
            batch=EventBatch(
                take_rows(batch.payload, keep),
                batch.start[keep],
                batch.end[keep],
                batch.new_end[keep],
                batch.stable,
            ),
            position=self.position[keep],
            is_adjust=self.is_adjust[keep],
        )

    def _between(self, first: int, last: int, low: int, high: int) -> Arrivals:
        """These rows, and what else stands at the positions from `low` to before `high`."""
        rows = slice(first, last)
        among = (self.stable_positions >= low) & (self.stable_positions < high)
        stables = self.stables[among]
        revised = [i for i, at in enumerate(self.revision_positions) if low <= at < high]
        return Arrivals(
            batch=EventBatch(
                self.batch.payload.slice(first, last - first),
                self.batch.start[rows],
                self.batch.end[rows],
                self.batch.new_end[rows],
                Time(int(stables.max(initial=BEGINNING))),
            ),
            position=self.position[rows],
            is_adjust=self.is_adjust[rows],
            stables=stables,
            stable_positions=self.stable_positions[among],
            revisions=tuple(self.revisions[i] for i in revised),
            revision_positions=tuple(self.revision_positions[i] for i in revised),
        )

    @staticmethod
    def of(elements: Iterable[Element], schema: pa.Schema, first: int = 1) -> Arrivals:
        """Elements as they come; the first of them stands at position `first`."""
        numbered = list(enumerate(elements, first))
        rows = [(i, element) for i, element in numbered if not isinstance(element, Stable)]
        stables = [(i, element) for i, element in numbered if isinstance(element, Stable)]
        return Arrivals(
            batch=batch_of((element for _, element in numbered), schema),
            position=np.array([i for i, _ in rows], np.int64),
            is_adjust=np.array([isinstance(row, Adjust) for _, row in rows], np.bool_),
            stables=np.array([stable.time for _, stable in stables], np.int64),
            stable_positions=np.array([i for i, _ in stables], np.int64),
        )
