"""Rows in the order in which they came, with the promises that held when they came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.model.batch import EventBatch, take_rows
from anabranch.model.elements import Adjust, Element, Stable, batch_of
from anabranch.model.time import BEGINNING, Time, TimeArray


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
    """

    batch: EventBatch
    position: npt.NDArray[np.int64]
    is_adjust: npt.NDArray[np.bool_]
    stables: TimeArray
    stable_positions: npt.NDArray[np.int64]
    left_out: int = 0
    latest: Time = BEGINNING

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
            last = first + rows
            whole = slice(first, last)
            # Stables go with the rows in front of them.
            low = self.position[first] if first else BEGINNING
            high = self.position[last] if last < len(self) else np.iinfo(np.int64).max
            among = (self.stable_positions >= low) & (self.stable_positions < high)
            stables = self.stables[among]
            yield Arrivals(
                batch=EventBatch(
                    self.batch.payload.slice(first, rows),
                    self.batch.start[whole],
                    self.batch.end[whole],
                    self.batch.new_end[whole],
                    Time(int(stables.max(initial=BEGINNING))),
                ),
                position=self.position[whole],
                is_adjust=self.is_adjust[whole],
                stables=stables,
                stable_positions=self.stable_positions[among],
            )

    def without(self, row: int) -> Arrivals:
        """All but one row."""
        keep = np.delete(np.arange(len(self)), row)
        batch = self.batch
        return Arrivals(
            batch=EventBatch(
                take_rows(batch.payload, keep),
                batch.start[keep],
                batch.end[keep],
                batch.new_end[keep],
                batch.stable,
            ),
            position=self.position[keep],
            is_adjust=self.is_adjust[keep],
            stables=self.stables,
            stable_positions=self.stable_positions,
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
