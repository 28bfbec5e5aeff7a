"""The events that follow where one of the first k went: read by rank until k are certain.

A lost range is a stretch of time of a group in which one of the first k rows went. What comes
before its edge is known (see `rows_ahead`). Which rows follow is told by a few of the events of the
group: those next to the edge in every run.

Of each run the best events from the edge on that hold in the range are read, a few more than k at
first. They tell nothing about a rank that another run has not been read up to. So what is *certain*
are the ranks before that of the first event that was not read of any run. Where k certain rows hold
at every instant of a range, these are the first k at least, and the range is done. The others are
cut to the stretch in which fewer than k hold, and of the events that hold there eight times as many
are read.

Example, k = 2, lost is [0, 10), lower ranks are better, one event is read of each run:
    run 0    rank 1 on [0, 10)   rank 4 on [0, 10)   rank 9 on [0, 4)
    run 1    rank 2 on [0, 6)    rank 3 on [5, 10)
Read are ranks 1 and 2, next come 4 and 3: ranks before 3 are certain. Two of these hold until 6, so
[6, 10) is left. There ranks 2 and 9 do not hold: 1, 4 and 3 are read, and that is all there is.

Equal events in several runs, such as one that came in one and went in another, have one rank and
one end, so that they are certain together, and add up as they do among all events.

Cost: some k rows of each run, whatever the group has beside them. A group that a run has not been
asked about before is ranked first, once in the life of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    Mask,
    group_starts,
    group_sums,
    is_first,
    is_last,
    order_by_number_and_time,
    positions_of,
)
from anabranch.kernels.columns.lazy_concat import LazyPart
from anabranch.kernels.contract.column_names import END, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.top_k.best_rows import Ranges, Stretches
from anabranch.kernels.top_k.rank_order import RankedRows, RowOrder
from anabranch.kernels.top_k.row_order import Leading
from anabranch.kernels.top_k.rows_ahead import rows_ahead
from anabranch.kernels.trace.event_trace import rows_over
from anabranch.kernels.trace.runs import Slices, column
from anabranch.kernels.trace.timeline_rows import COUNT

READ_ALL_UP_TO_ROWS: Final = 4_096
"""Up to this many stored events of a group are all read: that takes less than a look at ranks."""

RANK_FROM_ROWS: Final = 512
"""From this many events of a group on, a run is read by rank; shorter ones are read as a whole."""

READ_ALL_PER_ARRIVED: Final = 8
"""Up to so many stored events per event that arrives are all read: then the work still follows the
batch, and runs do not live long enough for their ranks to pay."""

NEXT_ROWS: Final = 16
"""So many rows more than k are read at first of a run."""

_MORE: Final = 8
"""So many times as many rows are read where some were not enough."""

_MOST: Final = np.int64(2**63 - 1)

Rows = tuple[Ints, Ints]
"""Positions in a run, and the range of each."""


def rows_to_read(
    k: int,
    runs: Sequence[SortedRun],
    order: RowOrder,
    ids: Ids,
    lost: Ranges,
    ranked: RankedRows,
    was: Stretches,
    moved: Stretches,
) -> tuple[list[Rows], Stretches]:
    """Of each run the rows that tell the first k of lost ranges, and the rows ahead of them.

    The last run is what the batch brought; `ids` are the groups of the ranges. Of small groups all
    rows are read that hold in a range, and none are ahead. `ranked` has the codes of the first k as
    they were, and of the moves of the batch.
    """
    slices = [Slices(run, ids) for run in runs]
    is_large = _are_large(k, slices, lost)
    if not is_large.any():
        found = [rows_over(*each, lost.low, lost.high) for each in zip(runs, slices, strict=True)]
        return found, was.take(np.empty(0, np.int64))
    large, small = np.flatnonzero(is_large), np.flatnonzero(~is_large)
    edge, ahead = rows_ahead(was, moved, lost.take(large))
    few = _next_rows(k, runs, order, ids[large], lost.take(large), ranked.payloads(edge), ahead)
    low, high = lost.low[small], lost.high[small]
    rest = [rows_over(run, Slices(run, ids[small]), low, high) for run in runs]
    every = []
    for (rows, range_), (others, of_others) in zip(few, rest, strict=True):
        every.append((np.append(rows, others), np.append(large[range_], small[of_others])))
    return every, replace(ahead, owner=large[ahead.owner])


def _are_large(k: int, slices: Sequence[Slices], lost: Ranges) -> Mask:
    """Which lost ranges are those of groups with many stored events."""
    sizes = np.stack([each.high - each.low for each in slices])
    stored, arrived = sizes[:-1].sum(axis=0), sizes[-1]
    ranges = np.bincount(lost.owner)[lost.owner]
    is_many = stored > max(READ_ALL_UP_TO_ROWS, READ_ALL_PER_ARRIVED * k)
    return np.asarray(is_many & (stored * ranges > READ_ALL_PER_ARRIVED * arrived))


def _next_rows(
    k: int,
    runs: Sequence[SortedRun],
    order: RowOrder,
    ids: Ids,
    lost: Ranges,
    edges: LazyPart,
    ahead: Stretches,
) -> list[Rows]:
    """Of each run the rows from the edges of lost ranges on that tell the first k there."""
    slices = [Slices(run, ids) for run in runs]
    found: list[list[Rows]] = [[] for _ in runs]
    leading = order.leading(edges)
    left = _Left(np.arange(len(ids)), lost.low, lost.high)
    wanted = NEXT_ROWS + k
    while len(left.range_):
        read = [
            _Read.of(run, each, left, order, leading, wanted)
            for run, each in zip(runs, slices, strict=True)
        ]
        certain, has_more = _certain(runs, read, left, order, edges)
        for parts, (rows, stretch) in zip(found, certain, strict=True):
            parts.append((rows, left.range_[stretch]))
        left = _still_left(k, runs, certain, left, ahead, has_more)
        wanted *= _MORE
    return [_once(len(run), parts) for run, parts in zip(runs, found, strict=True)]


def _once(length: int, parts: Sequence[Rows]) -> Rows:
    """Rows of a run, and their ranges, each pair once."""
    rows, range_ = (np.concatenate(each) for each in zip(*parts, strict=True))
    pairs = np.unique(range_ * length + rows)
    return pairs % max(length, 1), pairs // max(length, 1)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Left:
    """Stretches [low, high) of lost ranges in which the first k are not known yet."""

    range_: Ints
    low: Ints
    high: Ints


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """Rows that were read of a run, the stretch of each, and the rows that come after these.

    Of a stretch whose rows were not all read, the best one that was not is among those from
    `known` on.
    """

    rows: Ints
    owner: Ints
    known: int

    @staticmethod
    def of(
        run: SortedRun,
        slices: Slices,
        left: _Left,
        order: RowOrder,
        leading: Leading | None,
        wanted: int,
    ) -> _Read:
        """The best rows of a run that hold in the stretches, and lie at or behind their edges."""
        low, high = slices.low[left.range_], slices.high[left.range_]
        is_long = high - low > RANK_FROM_ROWS
        rows, owner = positions_of(np.where(is_long, high, low), high)
        holds = column(run, TIME)[rows] < left.high[owner]
        holds &= column(run, END)[rows] > left.low[owner]
        all_rows, owners = [rows[holds]], [owner[holds]]
        after, whose = [], []
        for stretch in np.flatnonzero(is_long).tolist():
            span = int(left.low[stretch]), int(left.high[stretch])
            ranked = order.slice(run, int(low[stretch]), int(high[stretch]))
            begin = ranked.block_before(leading, int(left.range_[stretch]))
            best, following = ranked.first(run, begin, *span, wanted)
            all_rows.append(best)
            owners.append(np.full(len(best), stretch))
            if following >= 0:
                after.append(following)
                whose.append(stretch)
        known = sum(map(len, all_rows))
        return _Read(
            np.concatenate([*all_rows, np.array(after, np.int64)]),
            np.concatenate([*owners, np.array(whose, np.int64)]),
            known,
        )


def _certain(
    runs: Sequence[SortedRun],
    read: Sequence[_Read],
    left: _Left,
    order: RowOrder,
    edges: LazyPart,
) -> tuple[list[Rows], Mask]:
    """Of what was read of each run, what is certain, and which stretches have more rows."""
    width = len(order.schema)
    parts = [LazyPart.of(run.rows, width, of.rows) for run, of in zip(runs, read, strict=True)]
    stretches = np.arange(len(left.range_))
    parts.append(edges.at(left.range_))
    owner = np.concatenate([*(each.owner for each in read), stretches])
    rank = order.ranks(parts, owner)
    edge = rank[len(owner) - len(stretches) :]
    cuts = np.cumsum([len(each.rows) for each in read])
    ranks = np.split(rank, cuts)[: len(read)]
    bound = np.full(len(stretches), _MOST)
    for of, found in zip(read, ranks, strict=True):
        np.minimum.at(bound, of.owner[of.known :], found[of.known :])
    certain = []
    for of, found in zip(read, ranks, strict=True):
        rows, owner, found = of.rows[: of.known], of.owner[: of.known], found[: of.known]
        # Of the rank that comes next there may be more rows, which take away those that were read.
        keep = np.flatnonzero((found >= edge[owner]) & (found < bound[owner]))
        certain.append((rows[keep], owner[keep]))
    return certain, bound < _MOST


def _still_left(
    k: int,
    runs: Sequence[SortedRun],
    certain: Sequence[Rows],
    left: _Left,
    ahead: Stretches,
    has_more: Mask,
) -> _Left:
    """Stretches cut to where fewer than k rows are known, without those that have no more."""
    stretches = np.arange(len(left.range_))
    stretch_of = np.full(int(ahead.owner.max(initial=left.range_[-1])) + 1, -1)
    stretch_of[left.range_] = stretches
    known = ahead.take(np.flatnonzero(stretch_of[ahead.owner] >= 0))
    start, end, count = (
        np.concatenate([column(run, name)[rows] for run, (rows, _) in zip(runs, certain)])
        for name in (TIME, END, COUNT)
    )
    owner = np.concatenate([*(owner for _, owner in certain), stretch_of[known.owner]])
    low = np.clip(np.concatenate([start, known.low]), left.low[owner], left.high[owner])
    high = np.clip(np.concatenate([end, known.high]), left.low[owner], left.high[owner])
    count = np.concatenate([count, known.count])
    whose = np.concatenate([owner, owner, stretches])
    times = np.concatenate([low, high, left.low])
    change = np.concatenate([count, -count, np.zeros_like(stretches)])
    by_time = order_by_number_and_time(whose, times)
    whose, times = whose[by_time], times[by_time]
    holding = group_sums(change[by_time], group_starts(is_first(whose)))
    until = np.where(is_last(whose), left.high[whose], np.append(times[1:], 0))
    few = np.flatnonzero(is_last(whose, times) & (holding < k) & (times < until))
    begin, stop = np.full(len(stretches), _MOST), np.full(len(stretches), ~_MOST)
    np.minimum.at(begin, whose[few], times[few])
    np.maximum.at(stop, whose[few], until[few])
    open_ = np.flatnonzero(has_more & (begin < stop))
    return _Left(left.range_[open_], begin[open_], stop[open_])
