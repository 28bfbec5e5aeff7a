"""The moves on one side of a join, and their pairs with the stored rows of the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.grouped import Ids, Ints, Mask, is_first
from anabranch.kernels.contract.column_names import END, ROW, TIME
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import EventBatch


@final
@dataclass(frozen=True, slots=True, eq=False)
class SideMoves:
    """What came on one side."""

    ids: Ids
    check: Ids | None
    joins: np.ndarray | None
    start: Ints
    end: Ints
    new_end: Ints
    values: pa.RecordBatch


@final
@dataclass(frozen=True, slots=True, eq=False)
class JoinedPairs:
    """Moves of pairs, with the columns of both sides."""

    left: pa.RecordBatch
    right: pa.RecordBatch
    start: Ints
    end: Ints
    new_end: Ints

    def take(self, rows: Ints) -> JoinedPairs:
        """Those at these positions."""
        positions = pa.array(rows)
        return JoinedPairs(
            self.left.take(positions),
            self.right.take(positions),
            self.start[rows],
            self.end[rows],
            self.new_end[rows],
        )

    def of_any(self, left: Ids, right: Ids) -> Mask:
        """Marks the pairs of which a payload has one of these hashes, each in order."""
        found = np.zeros(len(self.start), np.bool_)
        for rows, wanted in ((self.left, left), (self.right, right)):
            if len(wanted):
                hashes = rows.column(ROW).to_numpy()
                at = np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)
                found |= wanted[at] == hashes
        return found


def corrected(moves: SideMoves) -> Ids:
    """The hashes of the payloads of which an event was adjusted or withdrawn, in order.

    All moves of one output event have one payload on either side. So either all of them are of
    pairs with such a payload, or none is: the others are inserts, and need not be added up.
    """
    rows = np.flatnonzero(moves.end != moves.start)
    if not len(rows):
        return np.empty(0, np.uint64)
    hashes = np.sort(moves.values.column(ROW).to_numpy()[rows])
    return hashes[is_first(hashes)]


def apart(batch: EventBatch, marked: Mask) -> tuple[EventBatch, EventBatch]:
    """The rows that are marked, and the others; all with the marked ones, where few others are."""
    count = int(np.count_nonzero(marked))
    if not count:
        return EventBatch.empty(batch.schema, batch.stable), batch
    if 2 * count > len(marked):
        return batch, EventBatch.empty(batch.schema, batch.stable)
    return batch.where(marked), batch.where(~marked)


def pair(moves: SideMoves, mine: Ints, held: pa.RecordBatch, side: int) -> JoinedPairs:
    """A pair holds while both parts do; as many pairs as there are copies of what is held."""
    counts = held.column(COUNT).to_numpy()
    if (counts != 1).any():
        again = np.repeat(np.arange(len(counts)), counts)
        held, mine = held.take(pa.array(again)), mine[again]
    begins, ends = held.column(TIME).to_numpy(), held.column(END).to_numpy()
    start = np.maximum(moves.start[mine], begins)
    end = np.maximum(np.minimum(moves.end[mine], ends), start)
    new_end = np.maximum(np.minimum(moves.new_end[mine], ends), start)
    arrived = moves.values.take(pa.array(mine)) if moves.values.num_columns else moves.values
    left, right = (arrived, held) if side == 0 else (held, arrived)
    return JoinedPairs(left, right, start, end, new_end)


def payload_of(rows: pa.RecordBatch) -> list[pa.Array]:
    """The user's columns among those that travel."""
    count = sum(name.startswith("key") for name in rows.schema.names)
    return [rows.column(f"key{index}") for index in range(count)]
