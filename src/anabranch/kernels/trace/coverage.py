"""How many values lie below one, and which is the r-th smallest, at many instants at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from anabranch.kernels.columns.grouped import Ints, is_first, order_by_number_and_time
from anabranch.kernels.trace.runs import search


@final
@dataclass(frozen=True, slots=True, eq=False)
class Spot:
    """Instants of owners, as stretches [low, high) of all that has changed until then."""

    owner: Ints
    low: Ints
    high: Ints

    def take(self, rows: Ints) -> Spot:
        """Some of the instants."""
        return Spot(self.owner[rows], self.low[rows], self.high[rows])

    def __len__(self) -> int:
        return len(self.owner)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """Values with lifetimes, per owner: a change of weight at every begin and every end.

    Changes are sorted by time, and asked about through the levels of a wavelet matrix (Claude,
    Navarro, Ordonez 2015): level by level they are cut in two halves of values, and for a stretch
    of changes its part in either half is known by counting. A question costs one step per bit of
    a value's rank, however many values are alive, and levels need not be kept.

    The invariant of a level: changes stand in the order of the level before, those with a 0 bit
    first, so a stretch [low, high) of changes up to an instant is two stretches on the next level,
    and both are found by counting zeros before `low` and `high`. Weights of a stretch add up to how
    many values are alive, as each began with +1 and, if it has ended, ended with -1.

    Example: one owner has 5 on [0, 10), 8 on [2, 6) and 9 on [4, 12). At 5 all three are alive, one
    of them below 8, and the last in order is 9; at 7 only 5 and 9 are.

    >>> owner, start, end = np.zeros(3, np.int64), np.array([0, 2, 4]), np.array([10, 6, 12])
    >>> coverage = Coverage.of_events(owner, start, end, np.array([5, 8, 9]), np.ones(3, np.int64))
    >>> spot = coverage.at(np.array([0, 0]), np.array([5, 7]))
    >>> coverage.total(spot).tolist(), coverage.below(spot, np.array([8, 8])).tolist()
    ([3, 2], [1, 1])
    >>> coverage.pick(spot, np.array([2, 1]))[0].tolist()
    [9, 9]
    """

    owners: Ints
    times: Ints
    ranks: Ints
    weights: Ints
    codes: Ints
    code_owners: Ints

    @staticmethod
    def of(owner: Ints, time: Ints, codes: Ints, weight: Ints) -> Coverage:
        """From changes in any order: from `time` on, the owner has so many more of a code."""
        order = order_by_number_and_time(owner, codes)
        first = is_first(owner[order], codes[order])
        distinct = order[first]
        ranks = np.empty(len(owner), np.int64)
        ranks[order] = np.cumsum(first) - 1
        ranks -= np.searchsorted(owner[distinct], owner)
        by_time = order_by_number_and_time(owner, time)
        return Coverage(
            owners=owner[by_time],
            times=time[by_time],
            ranks=ranks[by_time],
            weights=weight[by_time],
            codes=codes[distinct],
            code_owners=owner[distinct],
        )

    @staticmethod
    def of_events(
        owner: Ints,
        start: Ints,
        end: Ints,
        codes: Ints,
        count: Ints,
        until: Ints | None = None,
    ) -> Coverage:
        """From lifetimes [start, end), each so many times; after `until` nobody will ask."""
        begins = np.arange(len(owner)) if until is None else np.flatnonzero(start <= until)
        ends = np.arange(len(owner)) if until is None else np.flatnonzero(end <= until)
        rows = np.concatenate([begins, ends])
        times = np.concatenate([start[begins], end[ends]])
        weight = np.concatenate([count[begins], -count[ends]])
        return Coverage.of(owner[rows], times, codes[rows], weight)

    def at(self, owner: Ints, time: Ints) -> Spot:
        """Where to ask about instants."""
        low = np.searchsorted(self.owners, owner, side="left")
        high = np.searchsorted(self.owners, owner, side="right")
        return Spot(owner, low, search(self.times, low, high, time, after_equal=True))

    def total(self, spot: Spot) -> Ints:
        """How many values are alive."""
        sums = _prefix(self.weights)
        return np.asarray(sums[spot.high] - sums[spot.low])

    def below(self, spot: Spot, codes: Ints, *, or_equal: bool = False) -> Ints:
        """How many of them are smaller than a code."""
        if not len(spot) or not len(self.ranks):
            return np.zeros(len(spot), np.int64)
        first, rank = self._rank(spot, codes, or_equal)
        low, high = spot.low, spot.high
        result = np.zeros(len(spot), np.int64)
        # A code above all others has no rank in the levels.
        above = rank >= np.searchsorted(self.code_owners, spot.owner, side="right") - first
        for bit, zeros, weights in self._levels():
            right = (rank >> bit) & 1 != 0
            result += np.where(right, weights[high] - weights[low], 0)
            low, high = _follow(low, high, right, zeros)
        return np.where(above, self.total(spot), result)

    def pick(self, spot: Spot, index: Ints) -> tuple[Ints, Ints, Ints]:
        """The code at an index of the alive values in order; how many are smaller, how many equal.

        An index that is not there gives one of the codes all the same.
        """
        low, high = spot.low, spot.high
        rank = np.zeros(len(spot), np.int64)
        smaller = np.zeros(len(spot), np.int64)
        if not len(spot) or not len(self.ranks):
            return rank, smaller, smaller
        equal = self.total(spot)
        for bit, zeros, weights in self._levels():
            left = weights[high] - weights[low]
            right = index - smaller >= left
            smaller = smaller + np.where(right, left, 0)
            equal = np.where(right, equal - left, left)
            rank |= right.astype(np.int64) << bit
            low, high = _follow(low, high, right, zeros)
        first = np.searchsorted(self.code_owners, spot.owner, side="left")
        found = np.minimum(first + rank, len(self.codes) - 1)
        return self.codes[found], smaller, equal

    def _rank(self, spot: Spot, codes: Ints, or_equal: bool) -> tuple[Ints, Ints]:
        """Where the codes of each owner begin, and how many of them are smaller."""
        low = np.searchsorted(self.code_owners, spot.owner, side="left")
        high = np.searchsorted(self.code_owners, spot.owner, side="right")
        return low, search(self.codes, low, high, codes, after_equal=or_equal) - low

    def _levels(self) -> Iterator[tuple[int, Ints, Ints]]:
        """From the highest bit of a rank down: how many changes, and what weight, go left."""
        ranks, weights = self.ranks, self.weights
        for bit in range(int(ranks.max(initial=0)).bit_length() - 1, -1, -1):
            left = (ranks >> bit) & 1 == 0
            yield bit, _prefix(left), _prefix(np.where(left, weights, 0))
            order = np.concatenate([np.flatnonzero(left), np.flatnonzero(~left)])
            ranks, weights = ranks[order], weights[order]


def _prefix(values: np.ndarray) -> Ints:
    """What lies before each position, and at the end all of it."""
    result = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=result[1:])
    return result


def _follow(low: Ints, high: Ints, right: np.ndarray, zeros: Ints) -> tuple[Ints, Ints]:
    """The same stretches on the next level, where all that goes left stands first."""
    all_left = zeros[-1]
    return (
        np.where(right, all_left + low - zeros[low], zeros[low]),
        np.where(right, all_left + high - zeros[high], zeros[high]),
    )
