"""Many moves of many ends, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.model.time import BEGINNING, Time, TimeArray

TIME_COLUMNS = ("start", "end", "new_end")


@final
@dataclass(frozen=True, slots=True, eq=False)
class EventBatch:
    """Rows that each move one end of one lifetime, and one stable point for the whole batch.

    A row `(payload, start, end, new_end)` moves the end of a lifetime that begins at `start` from
    `end` to `new_end`. Nothing there yet means `end == start`, nothing left means
    `new_end == start`; so inserts, adjusts and withdrawals are one thing. At the multiplicity of
    its payload, a row adds one from `end` to `new_end` (takes one away where that runs
    backwards).

    `stable` holds after all rows of the batch.
    """

    payload: pa.RecordBatch
    start: TimeArray
    end: TimeArray
    new_end: TimeArray
    stable: Time = BEGINNING

    def __len__(self) -> int:
        return len(self.start)

    @property
    def schema(self) -> pa.Schema:
        """The user's columns."""
        return self.payload.schema

    @staticmethod
    def empty(schema: pa.Schema, stable: Time = BEGINNING) -> EventBatch:
        """No rows, only progress."""
        none = np.empty(0, np.int64)
        return EventBatch(no_rows(schema), none, none, none, stable)

    def with_ends(self, end: TimeArray, new_end: TimeArray) -> EventBatch:
        """The same rows with other ends."""
        return replace(self, end=end, new_end=new_end)

    def with_payload(self, payload: pa.RecordBatch) -> EventBatch:
        """The same moves of other payloads."""
        return replace(self, payload=payload)

    def with_stable(self, stable: Time) -> EventBatch:
        """The same rows under another promise."""
        return replace(self, stable=stable)

    def where(self, keep: np.ndarray) -> EventBatch:
        """The rows for which the mask is true."""
        if keep.all():
            return self
        return self.take(
            np.flatnonzero(keep)
        )  # several columns by position are faster than by mask

    def between(self, first: int, last: int) -> EventBatch:
        """The rows from one position up to another; nothing is copied."""
        start = self.start[first:last]
        end = start if self.end is self.start else self.end[first:last]
        new_end = self.new_end[first:last]
        payload = self.payload
        payload = payload.slice(first, last - first) if payload.num_columns else payload
        return replace(self, payload=payload, start=start, end=end, new_end=new_end)

    def take(self, rows: np.ndarray) -> EventBatch:
        """The rows at these positions, in this order."""
        return self._at(rows, take_rows(self.payload, rows))

    def _at(self, rows: np.ndarray, payload: pa.RecordBatch) -> EventBatch:
        start = self.start[rows]
        # Inserts begin where nothing was: often both are one array.
        end = start if self.end is self.start else self.end[rows]
        return replace(self, payload=payload, start=start, end=end, new_end=self.new_end[rows])

    @staticmethod
    def concat(batches: Sequence[EventBatch]) -> EventBatch:
        """All rows; the stable point of the last batch that made a promise is the largest."""
        assert batches
        if len(batches) == 1:
            return batches[0]
        start = np.concatenate([batch.start for batch in batches])
        # Of inserts alone both are one array, and stay one.
        inserts = all(batch.end is batch.start for batch in batches)
        return EventBatch(
            concat_rows([batch.payload for batch in batches]),
            start,
            start if inserts else np.concatenate([batch.end for batch in batches]),
            np.concatenate([batch.new_end for batch in batches]),
            Time(max(batch.stable for batch in batches)),
        )


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of this schema without rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)


def take_rows(rows: pa.RecordBatch, positions: np.ndarray) -> pa.RecordBatch:
    """The rows at these positions (a batch without columns stays as it is)."""
    if not rows.num_columns:
        return rows
    return rows.take(pa.array(positions))


def concat_rows(parts: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch out of several of one schema."""
    batches = list(parts)
    if len(batches) == 1 or not batches[0].num_columns:
        return batches[0]
    return pa.concat_batches(batches)
