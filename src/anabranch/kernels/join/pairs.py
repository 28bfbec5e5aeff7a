"""The moves on one side of a join, and their pairs with the stored rows of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    Mask,
    is_identity,
    order_by_id_and_time,
    taken,
    without,
)
from anabranch.kernels.columns.hash_filter import linked_moves
from anabranch.kernels.join.event_identity import are_hashed, event_hashes, payload_of
from anabranch.kernels.join.interval_trace import HeldEvents
from anabranch.kernels.trace.rows_at import RowsAt
from anabranch.model.netting import net_moves
from anabranch.model.numbers.hashing import stable_hashes

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SideMoves:
    """What came on one side, by key and start.

    Attributes:
        ids: The keys.
        check: Second hashes of the keys, where they are needed.
        joins: Which moves have a key at all, where some have none.
        start: When events begin.
        end: When they ended; where nothing but inserts came it is `start` itself.
        new_end: When they end.
        rows: Where in `values` the other columns of each are.
        values: The other columns.
    """

    ids: Ids
    check: Ids | None
    joins: Mask | None
    start: Ints
    end: Ints
    new_end: Ints
    rows: Ints
    values: pa.RecordBatch

    def take(self, rows: Ints) -> SideMoves:
        """The moves at these positions."""
        start = taken(self.start, rows)
        return SideMoves(
            ids=taken(self.ids, rows),
            check=None if self.check is None else taken(self.check, rows),
            joins=None if self.joins is None else taken(self.joins, rows),
            start=start,
            end=start if self.end is self.start else taken(self.end, rows),
            new_end=taken(self.new_end, rows),
            rows=taken(self.rows, rows),
            values=self.values,
        )

    def sorted(self) -> SideMoves:
        """The same by key and start."""
        order = order_by_id_and_time(self.ids, self.start)
        return self if is_identity(order) else self.take(order)

    def active(self) -> SideMoves:
        """Those that can meet something."""
        meets = self.end != self.new_end
        if self.joins is not None:
            meets &= self.joins
        return self if meets.all() else self.take(np.flatnonzero(meets))


@final
@dataclass(frozen=True, slots=True, eq=False)
class JoinedPairs:
    """Moves of pairs, and where the columns of both sides are."""

    left: RowsAt
    right: RowsAt
    start: Ints
    end: Ints
    new_end: Ints

    def __len__(self) -> int:
        return len(self.start)

    @staticmethod
    def concat(found: Sequence[JoinedPairs]) -> JoinedPairs:
        """All of them; there is at least one."""
        if len(found) == 1:
            return found[0]
        start = np.concatenate([each.start for each in found])
        is_insert = all(each.end is each.start for each in found)
        return JoinedPairs(
            RowsAt.concat([each.left for each in found]),
            RowsAt.concat([each.right for each in found]),
            start,
            start if is_insert else np.concatenate([each.end for each in found]),
            np.concatenate([each.new_end for each in found]),
        )

    def take(self, rows: Ints) -> JoinedPairs:
        """Those at these positions, which ascend."""
        start = taken(self.start, rows)
        return JoinedPairs(
            self.left.take(rows),
            self.right.take(rows),
            start,
            start if self.end is self.start else taken(self.end, rows),
            taken(self.new_end, rows),
        )

    def without(self, rows: Ints) -> JoinedPairs:
        """All but these rows, which ascend; the arrays are written to."""
        left, right = self.left.without(rows), self.right.without(rows)
        times = (self.start, self.end, self.new_end)
        return JoinedPairs(left, right, *(without(each, rows) for each in times))

    def payload(self, schema: pa.Schema) -> pa.RecordBatch:
        """The user's columns of both sides."""
        arrays = [*payload_of(self.left), *payload_of(self.right)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def hashes(self) -> tuple[Ids, Ids]:
        """Two hashes of each pair of payloads."""
        if not (are_hashed(self.left) or are_hashed(self.right)):
            both = [*payload_of(self.left), *payload_of(self.right)]
            first, second = stable_hashes(both, len(self), (0, 1))
            return first, second
        zeros = np.zeros(len(self), np.uint64)
        left, check = event_hashes(self.left) or (zeros, zeros)
        right, other = event_hashes(self.right) or (zeros, zeros)
        return left * _ODD ^ right, check * _ODD ^ other


@final
@dataclass(frozen=True, slots=True, eq=False)
class Corrections:
    """Events that were found for a side, but move in the same batch.

    Attributes:
        rows: Which of those that were found; they ascend.
        ends: When they end at last; the least time: their pairs do not move.
    """

    rows: Ints
    ends: Ints

    def of(self, held: Ints) -> Ints:
        """When all events end at last that were found with some ends."""
        if not len(self.rows):
            return held
        result = held.copy()
        result[self.rows] = self.ends
        return result


NO_CORRECTIONS: Final = Corrections(np.empty(0, np.int64), np.empty(0, np.int64))
NO_PAIR: Final = np.iinfo(np.int64).min


def pair(
    moves: SideMoves, held: HeldEvents, side: int, corrections: Corrections = NO_CORRECTIONS
) -> JoinedPairs:
    """A pair holds while both parts do."""
    is_insert = moves.end is moves.start
    if columns.is_compiled(len(held.owner)):
        count = np.empty(0, np.int64) if held.count is None else held.count
        events = (held.owner, held.position, held.start, held.end, count, held.stops)
        times = (moves.start, moves.end, moves.new_end)
        mine, position, stops, start, end, new_end = columns.native().pair_rows(
            moves.rows, *times, *events, corrections.rows, corrections.ends, is_insert
        )
        rows = RowsAt.cut(held.parts, position, stops)
    else:
        until = corrections.of(held.end)
        each = np.arange(len(until))
        each = each if held.count is None else np.repeat(each, held.count)
        each = each[until[each] != NO_PAIR]
        held, until = replace(held, count=None).take(each), taken(until, each)
        mine, rows, at = taken(moves.rows, held.owner), held.rows, held.owner
        start = np.maximum(moves.start[at], held.start)
        end = np.maximum(np.minimum(moves.end[at], held.end), start)
        new_end = np.maximum(np.minimum(moves.new_end[at], until), start)
    if is_insert:
        end = start  # what was not there before
    arrived = RowsAt([moves.values], [mine])
    left, right = (arrived, rows) if side == 0 else (rows, arrived)
    return JoinedPairs(left, right, start, end, new_end)


def netted(pairs: JoinedPairs) -> JoinedPairs:
    """The same change without moves that continue others of the same event.

    A move that leaves an end which another one reaches is added up with it. All others stay as they
    are, in any order: the ends they leave are reached by none, so the events that have them were
    there before, and as many as are left. Example: a left event [5, 9) comes, and the end of its
    partner moves from 8 to 7. The pairs 5 -> 8 and 8 -> 7 become 5 -> 7.
    """
    if pairs.end is pairs.start:
        return pairs
    # Times tell nearly all of them apart; payloads are looked at where they do not.
    some = linked_moves(pairs.start.view(np.uint64), pairs.start, pairs.end, pairs.new_end)
    if not len(some):
        return pairs
    few = pairs.take(some)
    first, second = few.hashes()
    chosen = linked_moves(first, few.start, few.end, few.new_end)
    if not len(chosen):
        return pairs
    start, end, new_end = (taken(each, chosen) for each in (few.start, few.end, few.new_end))
    first, second, chosen = first[chosen], second[chosen], some[chosen]
    if columns.is_compiled(len(chosen)):
        group, one = columns.native().group_rows(first, second, start, start)
        rows, old, new = columns.native().net_groups(group, len(one), start, end, new_end)
    else:
        rows, old, new = net_moves(start, end, new_end, (first, second))
    kept = chosen[rows]
    pairs.end[kept], pairs.new_end[kept] = old, new  # nobody else has these arrays
    stays = np.zeros(len(chosen), np.bool_)
    stays[rows] = True
    return pairs.without(chosen[~stays])
