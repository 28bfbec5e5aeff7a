"""The moves on one side of a join, and their pairs with the stored rows of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.grouped import Ids, Ints, taken
from anabranch.kernels.columns.hash_filter import linked_moves
from anabranch.kernels.contract.column_names import JOIN_ROW_CHECK, ROW
from anabranch.kernels.join.interval_trace import HeldEvents
from anabranch.kernels.trace.rows_at import RowsAt
from anabranch.model.netting import net_moves
from anabranch.model.numbers.hashing import stable_hashes

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


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
        return JoinedPairs(
            self.left.take(rows),
            self.right.take(rows),
            taken(self.start, rows),
            taken(self.end, rows),
            taken(self.new_end, rows),
        )

    def payload(self, schema: pa.Schema) -> pa.RecordBatch:
        """The user's columns of both sides."""
        arrays = [*payload_of(self.left), *payload_of(self.right)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def netted(self) -> JoinedPairs:
        """The same change without moves that continue others of the same event.

        A move that leaves an end which another one reaches is added up with it. All others stay as
        they are, in any order: the ends they leave are reached by none, so the events that have
        them were there before, and as many as are left. Example: a left event [5, 9) comes, and the
        end of its partner moves from 8 to 7. The pairs 5 -> 8 and 8 -> 7 become 5 -> 7.
        """
        if self.end is self.start:
            return self
        # Times tell nearly all of them apart; payloads are looked at where they do not.
        some = linked_moves(self.start.view(np.uint64), self.start, self.end, self.new_end)
        if not len(some):
            return self
        few = self.take(some)
        first, second = few._hashes()
        times = (few.start, few.end, few.new_end)
        chosen = linked_moves(first, *times)
        if not len(chosen):
            return self
        start, end, new_end = (part[chosen] for part in times)
        first, second, chosen = first[chosen], second[chosen], some[chosen]
        if columns.is_compiled(len(chosen)):
            group, one = columns.native().group_rows(first, second, start, start)
            rows, old, new = columns.native().net_groups(group, len(one), start, end, new_end)
        else:
            rows, old, new = net_moves(start, end, new_end, (first, second))
        return self._with_ends(chosen, chosen[rows], old, new)

    def _with_ends(self, rows: Ints, kept: Ints, old: Ints, new: Ints) -> JoinedPairs:
        """Other ends for some rows, of which only a part is kept."""
        stays = np.ones(len(self), np.bool_)
        stays[rows] = False
        stays[kept] = True
        positions = np.flatnonzero(stays)
        left = self.take(positions)
        at = np.searchsorted(positions, kept)
        left.end[at], left.new_end[at] = old, new  # the arrays are new ones
        return left

    def _hashes(self) -> tuple[Ids, Ids]:
        """Two hashes of each pair of payloads."""
        both = []
        for side in (self.left, self.right):
            if ROW in side.names:
                both.append((side.numbers(ROW), side.numbers(JOIN_ROW_CHECK)))
            else:
                first, second = stable_hashes(payload_of(side), len(self), (0, 1))
                both.append((first, second))
        (left, check), (right, other) = both
        return left * _ODD ^ right, check * _ODD ^ other


def pair(moves: SideMoves, mine: Ints, held: HeldEvents, side: int) -> JoinedPairs:
    """A pair holds while both parts do."""
    if columns.is_compiled(len(mine)):
        times = (moves.start, moves.end, moves.new_end, held.start, held.end)
        start, end, new_end = columns.native().pair_times(mine, *times)
    else:
        start = np.maximum(moves.start[mine], held.start)
        end = np.maximum(np.minimum(moves.end[mine], held.end), start)
        new_end = np.maximum(np.minimum(moves.new_end[mine], held.end), start)
    if moves.end is moves.start:
        end = start  # what was not there before
    arrived = RowsAt([moves.values], [mine])
    left, right = (arrived, held.rows) if side == 0 else (held.rows, arrived)
    return JoinedPairs(left, right, start, end, new_end)


def payload_of(rows: RowsAt) -> list[pa.Array]:
    """The user's columns among those that travel."""
    count = sum(name.startswith("key") for name in rows.names)
    return [rows.column(f"key{index}") for index in range(count)]
