"""Rows in order: of a batch by code, and of a run by rank, where the next ones are read off."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.algebra.top_k import Ordering
from anabranch.kernels.columns.grouped import Ints, order_by_time
from anabranch.kernels.columns.lazy_concat import LazyConcat, LazyPart
from anabranch.kernels.contract.column_names import END, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.top_k.row_order import Leading, rank_rows
from anabranch.kernels.trace.runs import column

RANK_BLOCK_ROWS: Final = 64
"""So many rows that follow one another in rank share one least start and one greatest end."""

_AHEAD: Final = 4
"""Among so many times as many rows as are wanted it is looked first for those that hold."""

_NO_ROWS: Final = np.empty(0, np.int64)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RankedRows:
    """Rows, the group of each, and its rank in the order, which equal rows share."""

    rows: LazyConcat
    owner: Ints
    code: Ints

    def by_code(self) -> tuple[Ints, Ints]:
        """The group of every code, and one of its rows."""
        owner, row = np.empty((2, int(self.code.max()) + 1), np.int64)
        owner[self.code] = self.owner
        row[self.code] = np.arange(len(self.code))
        return owner, row

    def payloads(self, codes: Ints) -> LazyPart:
        """A row of each of these codes."""
        found = self.rows.take(self.by_code()[1][codes])
        return LazyPart(found.columns, len(codes))


@final
@dataclass(frozen=True, slots=True)
class RowOrder:
    """The order of rows of a schema."""

    schema: pa.Schema
    order_by: tuple[Ordering, ...]

    def ranks(self, parts: Sequence[LazyPart], owner: Ints) -> Ints:
        """The ranks of the rows of several parts, as `rank_rows` gives them."""
        return rank_rows(LazyConcat(self.schema, parts), owner, self.order_by)

    def leading(self, part: LazyPart) -> Leading | None:
        """What rows are ordered by first."""
        return Leading.of(LazyConcat(self.schema, [part]), self.order_by)

    def slice(self, run: SortedRun, low: int, high: int) -> RankedSlice:
        """The rows of a run from `low` to `high`, ranked once in the life of the run."""
        keys: list[Hashable] = [(each.sql, str(each.type), *how) for each, *how in self.order_by]
        name = ("rank order", low, *keys)
        found = run.derived.get(name)
        if found is None:
            found = run.derived[name] = RankedSlice.of(run, low, high, self)
        assert isinstance(found, RankedSlice)
        return found


@final
@dataclass(frozen=True, slots=True, eq=False)
class RankedSlice:
    """Rows of one run by rank, in blocks of which it is known when their rows hold.

    A block of which no row can hold in a stretch of time is passed over. So where few rows of a
    group hold in a stretch, still not all rows are looked at: of 300,000, at the times of 5,000
    blocks and at those of the rows in a few of these.

    Attributes:
        rows: Positions in the run, of the best row first.
        width: How many rows are in a block.
        begins: The least start of the rows of each block.
        ends: Their greatest end.
        leading: What the first row of each block is ordered by first.
    """

    rows: npt.NDArray[np.uint32]
    width: int
    begins: Ints
    ends: Ints
    leading: Leading | None

    @staticmethod
    def of(run: SortedRun, low: int, high: int, order: RowOrder) -> RankedSlice:
        """The rows from `low` to `high` of a run."""
        part = LazyPart.of(run.rows.slice(low, high - low), len(order.schema))
        by_rank = order_by_time(order.ranks([part], np.zeros(high - low, np.int64)))
        blocks = np.arange(0, len(by_rank), RANK_BLOCK_ROWS)
        rows = by_rank + low
        return RankedSlice(
            rows.astype(np.uint32),
            RANK_BLOCK_ROWS,
            np.minimum.reduceat(column(run, TIME)[rows], blocks),
            np.maximum.reduceat(column(run, END)[rows], blocks),
            order.leading(part.at(by_rank[blocks])),
        )

    def block_before(self, edges: Leading | None, row: int) -> int:
        """A block before which no row is at one of the edges or behind it."""
        if edges is None or self.leading is None:
            return 0
        # The last block that begins before the edge may reach it.
        return max(self.leading.before(edges, row) - 1, 0)

    def first(
        self, run: SortedRun, begin: int, low: int, high: int, wanted: int
    ) -> tuple[Ints, int]:
        """So many of the best rows that hold somewhere in [low, high), and the best one after.

        That one is -1 where there are no more. Blocks before `begin` are passed over.
        """
        start, end = column(run, TIME), column(run, END)
        blocks = 1 + _AHEAD * wanted // self.width
        found, count = [_NO_ROWS], 0
        while count <= wanted and begin < len(self.begins):
            stop = begin + blocks
            near = (self.begins[begin:stop] < high) & (self.ends[begin:stop] > low)
            first = (begin + np.flatnonzero(near)) * self.width
            index = (first[:, np.newaxis] + np.arange(self.width)).ravel()
            rows = self.rows[index[index < len(self.rows)]].astype(np.int64)
            rows = rows[(start[rows] < high) & (end[rows] > low)]
            found.append(rows)
            count += len(rows)
            begin, blocks = stop, 2 * _AHEAD * blocks
        rows = np.concatenate(found)
        return rows[:wanted], int(rows[wanted]) if count > wanted else -1
