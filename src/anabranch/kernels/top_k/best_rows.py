"""What a batch changes among the first k rows, given what they were.

Only the first k rows of each group are remembered in order (`best`), with the time that each was
among them; the other rows are found in the trace when they are needed. Rows have *codes*: smaller
is better, and the codes of one group are unique per payload.

At an instant that a batch touches, nothing changes among the first k, or:
- a row comes that is better than the k-th (or fewer than k are there): the first k change, and
  `best` and the batch tell how;
- a row goes that was among fewer than k: likewise;
- a row goes that was among k, so that a row outside `best` moves up: the range is *lost*, and the
  caller asks again with all rows that are alive in it.

Example, k = 2, `best` = codes 1 and 3, both on [0, 10):
    code 2 comes on [4, 8)          from 4: +1 of code 2, -1 of code 3; from 8 back
    code 1 ends at 6, not at 10     [6, 10) is lost. With the rows alive there (3 and 4):
                                    from 6: -1 of code 1, +1 of code 4; from 10 back

Cost: instants touched * k in the worst case, each found in log2(codes) steps (see `Coverage`).
`sweep` computes the same for large batches in one compiled pass; `survey` here is for small ones,
where loading or calling the compiled loops would cost more than it saves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from anabranch.kernels.columns.extremes import NONE, cover_max
from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    Mask,
    group_starts,
    group_sums,
    is_first,
    positions_of,
)
from anabranch.kernels.trace.coverage import Coverage, Spot
from anabranch.kernels.trace.ranked_events import unknown_event

_WORST: Final = np.int64(2**63 - 1)
"""A code worse than all others: that of the k-th row where there are fewer than k."""

_ODD: Final = tuple(
    np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
)
BLOCK_ROWS: Final = 1_000_000
"""Affected instants are compared in blocks of about this many rows, to bound memory."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class CodeChanges:
    """From an instant on, an owner has so many more rows of a code."""

    owner: Ints
    time: Ints
    code: Ints
    change: Ints


@final
@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """Rows of a code that an owner has more (or less) from `low` to `high`."""

    owner: Ints
    code: Ints
    low: Ints
    high: Ints
    count: Ints

    def take(self, rows: np.ndarray) -> Stretches:
        """Those at these positions."""
        return Stretches(
            self.owner[rows], self.code[rows], self.low[rows], self.high[rows], self.count[rows]
        )

    def beside(self, other: Stretches) -> Stretches:
        """These and other ones."""
        return Stretches(
            np.concatenate([self.owner, other.owner]),
            np.concatenate([self.code, other.code]),
            np.concatenate([self.low, other.low]),
            np.concatenate([self.high, other.high]),
            np.concatenate([self.count, other.count]),
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Stretches of time of owners."""

    owner: Ints
    low: Ints
    high: Ints

    def take(self, rows: np.ndarray) -> Ranges:
        """Those at these positions."""
        return Ranges(self.owner[rows], self.low[rows], self.high[rows])


@final
@dataclass(frozen=True, slots=True, eq=False)
class RankChanges:
    """From an instant on, so many more rows of a code are among the first k than before.

    `lost` ranges are those where a row went that was among the first k of more, so that another
    one follows, and only a look at all rows tells which.
    """

    code: Ints
    time: Ints
    change: Ints
    lost: Ranges


@final
@dataclass(frozen=True, slots=True, eq=False)
class Alive:
    """All rows of lost ranges, cut to these; which range each is in, and whose that is."""

    rows: Stretches
    range_: Ints
    range_owner: Ints


def survey(k: int, best: Stretches, moved: Stretches, alive: Alive | None) -> RankChanges:
    """Compare the first k at every instant that a batch touches; for small batches.

    Given are the first k as they were, moves of ends (`low` is the old one, `high` the new one),
    and what is alive in lost ranges, once these are known.
    """
    was = CodeChanges(
        np.concatenate([best.owner, best.owner]),
        np.concatenate([best.low, best.high]),
        np.concatenate([best.code, best.code]),
        np.concatenate([best.count, -best.count]),
    )
    moved = net(moved.owner, moved.code, moved.low, moved.high)
    comes = moved.count > 0
    may_matter = np.ones(len(comes), np.bool_)
    may_matter[comes] = keep_best(k, moved.take(comes))
    moved = moved.take(may_matter)
    everything, more = None, None
    if alive is not None:
        rows = replace(alive.rows, owner=alive.range_)
        rows = rows.take(keep_best(k, rows))
        everything = Coverage.of_events(rows.owner, rows.low, rows.high, rows.code, rows.count)
        range_, times = relevant_instants(k, rows, everything)
        more = alive.range_owner[range_], times
    view = Survey.of(k, was, moved, more)
    lost = Ranges(*view.lost_ranges())
    if len(lost.owner) and alive is None:
        none = np.empty(0, np.int64)
        return RankChanges(none, none, none, lost)
    found = list(view.differences(everything))
    code, low, high, change = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return RankChanges(
        np.concatenate([code, code]),
        np.concatenate([low, high]),
        np.concatenate([change, -change]),
        lost,
    )


def net(owner: Ints, code: Ints, end: Ints, new_end: Ints) -> Stretches:
    """Moves of ends added up: what came and went at once is not seen."""
    owner, code = np.concatenate([owner, owner]), np.concatenate([code, code])
    time = np.concatenate([end, new_end])
    change = np.repeat(np.array([1, -1]), len(end))
    order = np.lexsort((time, code, owner))
    owner, code, time, change = owner[order], code[order], time[order], change[order]
    first = is_first(owner, code, time)
    starts = np.flatnonzero(first)
    change = np.add.reduceat(change, starts) if len(starts) else change
    owner, code, time = owner[starts], code[starts], time[starts]
    count = group_sums(change, group_starts(is_first(owner, code)))
    nonzero = np.flatnonzero(count)
    return Stretches(
        owner[nonzero], code[nonzero], time[nonzero], time[nonzero + 1], count[nonzero]
    )


def keep_best(k: int, rows: Stretches) -> Mask:
    """Mark the rows that have fewer than k better ones of their owner with the same lifetime.

    The others can never be among the first k, because those k hold whenever they do.
    """
    order = np.lexsort((rows.code, rows.high, rows.low, rows.owner))
    first = is_first(rows.owner[order], rows.low[order], rows.high[order])
    count = rows.count[order]
    before = group_sums(count, group_starts(first)) - count
    keep = np.empty(len(order), np.bool_)
    keep[order] = before < k
    return keep


def crowded(k: int, ids: Ids, low: Ints, high: Ints) -> Mask:
    """Rows of which an id has more than k that hold as long (and now and then another one)."""
    if len(ids) <= k:
        return np.zeros(len(ids), np.bool_)
    mixed = (ids * _ODD[0]) ^ (low.view(np.uint64) * _ODD[1]) ^ (high.view(np.uint64) * _ODD[2])
    ordered = np.sort(mixed)
    repeated = np.unique(ordered[k:][ordered[k:] == ordered[:-k]])
    return np.isin(mixed, repeated) if len(repeated) else np.zeros(len(ids), np.bool_)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Instants at which something changes, per owner, and what a batch does at those it touches.

    `touched` are indexes into `owner` and `time`; `affected` and `lost` are per touched instant.
    `affected` ones may get another answer; at `lost` ones a row went that was among the first k of
    more, so that another one follows, and only a look at all rows tells which.
    """

    k: int
    owner: Ints
    time: Ints
    touched: Ints
    affected: Mask
    lost: Mask
    old: Coverage
    new: Coverage

    @staticmethod
    def of(
        k: int, best: CodeChanges, moved: Stretches, more: tuple[Ints, Ints] | None = None
    ) -> Survey:
        """Collect all instants at which the first k or what moved changes, and `more` instants."""
        owners = [best.owner, moved.owner, moved.owner] + ([more[0]] if more else [])
        times = [best.time, moved.low, moved.high] + ([more[1]] if more else [])
        owner, time, index = instants_of(np.concatenate(owners), np.concatenate(times))
        count = len(moved.owner)
        low = index[len(best.owner) :][:count]
        high = index[len(best.owner) + count :][:count]
        touched = np.flatnonzero(_covered(len(owner), low, high))
        old = Coverage.of(best.owner, best.time, best.code, best.change)
        spot = old.at(owner[touched], time[touched])
        full = old.total(spot) >= k
        worst, _, _ = old.pick(spot, np.full(len(spot), k - 1))
        worst = np.where(full, worst, _WORST)
        comes, goes = moved.count > 0, moved.count < 0
        coming = cover_max(len(owner), low[comes], high[comes], -moved.code[comes])[touched]
        going = cover_max(len(owner), low[goes], high[goes], -moved.code[goes])[touched]
        enters = (coming > NONE) & (-coming < worst)
        leaves = (going > NONE) & (-going <= worst)
        # What goes behind the first k was not among them; it counts only where there are fewer.
        free = np.zeros(len(owner), np.bool_)
        free[touched] = ~full
        piece, begin, stop = _within(free, low[goes], high[goes])
        gone = moved.take(goes).take(piece)
        come = moved.take(comes)
        new = Coverage.of(
            np.concatenate([best.owner, come.owner, come.owner, gone.owner, gone.owner]),
            np.concatenate([best.time, come.low, come.high, time[begin], time[stop]]),
            np.concatenate([best.code, come.code, come.code, gone.code, gone.code]),
            np.concatenate([best.change, come.count, -come.count, gone.count, -gone.count]),
        )
        return Survey(k, owner, time, touched, enters | leaves, leaves & full, old, new)

    def lost_ranges(self) -> tuple[Ints, Ints, Ints]:
        """Maximal stretches of neighbouring lost instants: owner, from, to."""
        begins, ends = self._lost_ends()
        return self.owner[begins], self.time[begins], self.time[ends + 1]

    def _lost_ends(self) -> tuple[Ints, Ints]:
        """Indexes of the first and last instants of the stretches of lost instants."""
        lost = np.zeros(len(self.owner) + 1, np.bool_)
        lost[self.touched] = self.lost
        first = np.append(is_first(self.owner), True)
        joined = lost[1:] & lost[:-1] & ~first[1:]
        begins = lost[:-1] & ~np.append(False, joined[:-1])
        return np.flatnonzero(begins), np.flatnonzero(lost[:-1] & ~joined)

    def differences(self, everything: Coverage | None) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
        """The old and the new first k of all affected instants, compared: code, from, to, change.

        `everything` has all rows alive in the lost ranges, which are its owners.
        """
        begins, _ = self._lost_ends()
        affected = np.flatnonzero(self.affected)
        rows = len(affected) * min(self.k, len(self.new.ranks))
        for part in np.array_split(affected, min(1 + rows // BLOCK_ROWS, max(len(affected), 1))):
            lost = self.lost[part]
            index = self.touched[part]
            was = _first(self.old, self.old.at(self.owner[index], self.time[index]), self.k)
            kept = np.flatnonzero(~lost)
            at = self.new.at(self.owner[index[kept]], self.time[index[kept]])
            which, codes = _first(self.new, at, self.k)
            found = [(kept[which], codes)]
            if everything is not None:
                gone = np.flatnonzero(lost)
                ranges = np.searchsorted(begins, index[gone], side="right") - 1
                at = everything.at(ranges, self.time[index[gone]])
                which, codes = _first(everything, at, self.k)
                found.append((gone[which], codes))
            which, code, change = _subtract(found, was)
            at_instant = index[which]
            yield code, self.time[at_instant], self.time[at_instant + 1], change


def relevant_instants(k: int, rows: Stretches, everything: Coverage) -> tuple[Ints, Ints]:
    """The owners and instants at which one of the first k of all rows begins or ends."""
    owner, time, index = instants_of(
        np.concatenate([rows.owner, rows.owner]), np.concatenate([rows.low, rows.high])
    )
    spot = everything.at(owner, time)
    worst, _, _ = everything.pick(spot, np.full(len(spot), k - 1))
    worst = np.where(everything.total(spot) >= k, worst, _WORST)
    begin, stop = np.split(index, 2)
    marked = np.zeros(len(owner), np.bool_)
    marked[begin[rows.code <= worst[begin]]] = True
    # stop - 1 is an instant of the same range, as the row has begun there at the latest.
    marked[stop[rows.code <= worst[stop - 1]]] = True
    return owner[marked], time[marked]


def instants_of(owner: Ints, time: Ints) -> tuple[Ints, Ints, Ints]:
    """The distinct instants of every owner, in order, and the index of each given one."""
    order = np.lexsort((time, owner))
    first = is_first(owner[order], time[order])
    index = np.empty(len(order), np.int64)
    index[order] = np.cumsum(first) - 1
    distinct = order[first]
    return owner[distinct], time[distinct], index


def _covered(length: int, low: Ints, high: Ints) -> Mask:
    cover = np.zeros(length, np.int64)
    np.add.at(cover, low, 1)
    np.subtract.at(cover, high, 1)
    return np.asarray(np.cumsum(cover) > 0)


def _within(mask: Mask, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
    """Ranges of indexes cut down to where the mask holds: the range of each piece, from, to."""
    if not len(low):
        none = np.empty(0, np.int64)
        return none, none, none
    starts = np.flatnonzero(np.append(True, mask[1:] != mask[:-1]))
    runs = np.append(starts, len(mask))
    first = np.searchsorted(starts, low, side="right") - 1
    last = np.searchsorted(starts, high - 1, side="right")
    run, owner = positions_of(first, last)
    keep = mask[starts[run]]
    run, owner = run[keep], owner[keep]
    return owner, np.maximum(low[owner], runs[run]), np.minimum(high[owner], runs[run + 1])


def _first(coverage: Coverage, spot: Spot, k: int) -> tuple[Ints, Ints]:
    """The codes of the first k rows of all instants, and the number of the instant of each."""
    total = coverage.total(spot)
    if (total < 0).any():
        raise unknown_event()
    index, which = positions_of(np.zeros(len(spot), np.int64), np.minimum(total, k))
    codes, _, _ = coverage.pick(spot.take(which), index)
    return which, codes


def _subtract(found: list[tuple[Ints, Ints]], was: tuple[Ints, Ints]) -> tuple[Ints, Ints, Ints]:
    """How many more of each code there are at each instant than there were."""
    which = np.concatenate([*(part[0] for part in found), was[0]])
    code = np.concatenate([*(part[1] for part in found), was[1]])
    sign = np.ones(len(which), np.int64)
    sign[len(which) - len(was[0]) :] = -1
    order = np.lexsort((code, which))
    first = np.flatnonzero(is_first(which[order], code[order]))
    change = np.add.reduceat(sign[order], first) if len(first) else sign
    nonzero = np.flatnonzero(change)
    return which[order[first[nonzero]]], code[order[first[nonzero]]], change[nonzero]
