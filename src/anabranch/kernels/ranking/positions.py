"""What is different between the positions of rows before a batch and after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from anabranch.algebra.ranking import NEIGHBOURS, RankCall
from anabranch.kernels.columns.grouped import Ints, is_first
from anabranch.kernels.trace.ranked_events import unknown_event


@final
@dataclass(frozen=True, slots=True, eq=False)
class HeldRows:
    """Rows of groups with their lifetimes; `code` is the rank of each, of all groups together."""

    owner: Ints
    code: Ints
    low: Ints
    high: Ints
    count: Ints


@final
@dataclass(frozen=True, slots=True, eq=False)
class CodeOrder:
    """Codes of rows: where those of each group begin, and which are equal in what is ordered by."""

    first_code: Ints
    peer_of: Ints
    first_of_peer: Ints


@final
@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Stretches of time on which a row has one position: more of them, or fewer (`count` < 0).

    Attributes:
        code: The row.
        low: From when on.
        high: Until when.
        count: How many more copies have this position.
        table: Per piece row number, rank, dense rank, and the codes of its neighbours.
    """

    code: Ints
    low: Ints
    high: Ints
    count: Ints
    table: npt.NDArray[np.int64]


def changed_positions(
    calls: Sequence[RankCall], order: CodeOrder, before: HeldRows, after: HeldRows
) -> Pieces:
    """The pieces that were there before and are not now, and those that are new."""
    numbers = any(call.function not in NEIGHBOURS for call in calls)
    offsets = np.array([call.steps for call in calls if call.function in NEIGHBOURS], np.int64)
    both = [_pieces(numbers, offsets, order, rows) for rows in (before, after)]
    sizes = [len(part.code) for part in both]
    code, low, high = (
        np.concatenate([getattr(part, name) for part in both]) for name in ("code", "low", "high")
    )
    table = np.concatenate([part.table for part in both])
    # What nobody asks for does not tell pieces apart.
    used = {"row_number": 0, "rank": 1, "dense_rank": 2}
    asked = {used[call.function] for call in calls if call.function in used}
    table[:, [column for column in range(3) if column not in asked]] = 0
    sign = np.repeat(np.array([-1, 1]), sizes)
    return _netted(code, low, high, sign, table)


def _pieces(numbers: bool, offsets: Ints, order: CodeOrder, rows: HeldRows) -> Pieces:
    from anabranch.kernels.columns.compiled_ranks import positions_over_time

    owner = np.concatenate([rows.owner, rows.owner])
    times = np.concatenate([rows.low, rows.high])
    code, low, high, table, unknown = positions_over_time(
        numbers,
        offsets,
        order.first_code,
        order.peer_of,
        order.first_of_peer,
        rows.owner,
        rows.code,
        rows.low,
        rows.high,
        rows.count,
        np.lexsort((times, owner)),
    )
    if unknown:
        raise unknown_event()
    wide = table.reshape(len(code), 3 + len(offsets))
    return Pieces(code, low, high, np.ones_like(code), wide)


def _netted(code: Ints, low: Ints, high: Ints, sign: Ints, table: Ints) -> Pieces:
    """Pieces of one row and position as changes over time; where they cancel out nothing is left.

    Example: -[0, 10), +[0, 4), +[4, 10) are -1, +1 at 0, +1 - 1 at 4, and +1 - 1 at 10.
    """
    rows = np.concatenate([np.arange(len(code)), np.arange(len(code))])
    time, change = np.concatenate([low, high]), np.concatenate([sign, -sign])
    columns = [column[rows] for column in table.T] + [code[rows]]
    order = np.lexsort((time, *columns))
    sorted_columns = [column[order] for column in columns]
    time, change, rows = time[order], change[order], rows[order]
    starts = np.flatnonzero(is_first(*sorted_columns, time))
    change = np.add.reduceat(change, starts) if len(starts) else change
    kept = np.flatnonzero(change)
    starts, change = starts[kept], change[kept]
    time, rows = time[starts], rows[starts]
    # All that begins ends: the sums of a row and position go back to 0, so none needs a border.
    level = np.cumsum(change)
    there = np.flatnonzero(level)
    row = rows[there]
    return Pieces(code[row], time[there], time[there + 1], level[there], table[row])
