"""From changes of how often rows hold to moves of the lifetimes that were sent for them.

Level n of a row holds while the row holds at least n times; each level is a sequence of lifetimes,
and those are what was sent. So a change moves only ends within its own stretch of time, however
many copies of the row there are.

Example: a row holds once on [0, 10) and is sent as such. From 4 to 6 it holds once more: level 1 is
[0, 10) as before, level 2 is [4, 6), and the only move is the insert of [4, 6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from anabranch.kernels.columns.grouped import (
    Ints,
    group_starts,
    group_sums,
    is_first,
    order_by_time,
    positions_of,
)
from anabranch.model.time import FOREVER


@final
@dataclass(frozen=True, slots=True, eq=False)
class Lifetimes:
    """Lifetimes of rows by code; what holds several times is there several times."""

    code: Ints
    start: Ints
    end: Ints

    def take(self, rows: np.ndarray) -> Lifetimes:
        """Those at these positions."""
        return Lifetimes(self.code[rows], self.start[rows], self.end[rows])


@final
@dataclass(frozen=True, slots=True, eq=False)
class LifetimeMoves:
    """Moves of ends; `was` is the number of the lifetime that is moved, -1 where it is new."""

    code: Ints
    start: Ints
    end: Ints
    new_end: Ints
    was: Ints


def move_lifetimes(old: Lifetimes, code: Ints, time: Ints, change: Ints) -> LifetimeMoves:
    """Lead from old lifetimes to new ones: from `time` on, a code holds so many more times.

    Level n of a code holds while the code holds at least n times; lifetimes are those of levels.
    So a change moves only ends within its own stretch of time.
    """
    size = int(max(code.max(initial=-1), old.code.max(initial=-1))) + 1
    changed, seen = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    changed[code] = True
    held = np.flatnonzero(changed[old.code])
    old = old.take(held)
    seen[old.code] = True
    ones = np.ones(len(held), np.int64)
    new = _of_levels(
        np.concatenate([old.code, old.code, code]),
        np.concatenate([old.start, old.end, time]),
        np.concatenate([ones, -ones, change]),
    )
    # Of a code that was not there before, all is new.
    compared = seen[new.code]
    fresh, new = new.take(~compared), new.take(compared)
    was, now = _pairs(old, new)
    start = _at(old.start, was, _at(new.start, now, was))
    end, new_end = _at(old.end, was, start), _at(new.end, now, start)
    moved = np.flatnonzero(end != new_end)
    was, now = was[moved], now[moved]
    return LifetimeMoves(
        code=np.concatenate([_at(old.code, was, _at(new.code, now, was)), fresh.code]),
        start=np.concatenate([start[moved], fresh.start]),
        end=np.concatenate([end[moved], fresh.start]),
        new_end=np.concatenate([new_end[moved], fresh.end]),
        was=np.concatenate([_at(held, was, was), np.full(len(fresh.code), -1)]),
    )


def _of_levels(code: Ints, time: Ints, change: Ints) -> Lifetimes:
    """The lifetimes of all levels, by code."""
    order = order_by_code_and_time(code, time)
    code, time, change = code[order], time[order], change[order]
    first = np.flatnonzero(is_first(code, time))
    change = np.add.reduceat(change, first) if len(first) else change
    first, change = first[change != 0], change[change != 0]
    code, time = code[first], time[first]
    after = group_sums(change, group_starts(is_first(code)))
    before = after - change
    if after.max(initial=0) <= 1:
        return _in_turn(code, time)
    several = np.zeros(int(code.max()) + 1, np.bool_)
    several[code[after > 1]] = True
    rest, layered = np.flatnonzero(~several[code]), np.flatnonzero(several[code])
    low, high = np.minimum(before, after)[layered], np.maximum(before, after)[layered]
    level, rows = positions_of(low, high)
    rows = layered[rows]
    rows = rows[np.lexsort((time[rows], level, code[rows]))]
    rows = np.concatenate([rest, rows])
    return _in_turn(code[rows], time[rows])


def _in_turn(code: Ints, time: Ints) -> Lifetimes:
    """Each level begins and ends in turn."""
    return Lifetimes(code[::2], time[::2], time[1::2])


def _pairs(old: Lifetimes, new: Lifetimes) -> tuple[Ints, Ints]:
    """Old and new lifetimes of a code that begin together; -1 where there is no other."""
    count = len(old.code)
    code, start = np.concatenate([old.code, new.code]), np.concatenate([old.start, new.start])
    order = order_by_code_and_time(code, start)
    first = is_first(code[order], start[order])
    again = ~first[1:] & ((order[1:] < count) == (order[:-1] < count))
    if again.any():
        # Several levels begin together: the lowest one is the longest.
        end, is_new = np.concatenate([old.end, new.end]), np.arange(len(code)) >= count
        order = np.lexsort((~end, is_new, start, code))
        side = is_first(code[order], start[order], is_new[order])
        level = np.empty(len(order), np.int64)
        level[order] = np.arange(len(order)) - group_starts(side)
        order = np.lexsort((level, start, code))
        first = is_first(code[order], start[order], level[order])
    pair = np.flatnonzero(first)
    alone = np.append(first, True)[pair + 1]
    one, other = order[pair], np.append(order, 0)[pair + 1]
    was = np.where(one < count, one, -1)
    now = np.where(one >= count, one - count, np.where(alone, -1, other - count))
    return was, now


def _at(values: Ints, positions: Ints, otherwise: Ints) -> Ints:
    """Values at positions; others where a position is negative."""
    return np.where(positions >= 0, values[positions], otherwise) if len(values) else otherwise


def order_in_time(times: Ints) -> Ints:
    """Positions that sort by time; equal ones keep their order."""
    endless = times == FOREVER
    if endless.any() and not endless.all():
        # The end of time is far from all others: sorting is faster without the gap.
        times = np.where(endless, times[~endless].max() + 1, times)
    return order_by_time(times)


def order_by_code_and_time(codes: Ints, times: Ints) -> Ints:
    """Positions that sort by code, then by time; rows equal in both keep their order."""
    by_time = order_in_time(times)
    return by_time[order_by_time(codes[by_time])]
