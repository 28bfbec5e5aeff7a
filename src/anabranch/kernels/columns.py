"""Whole-column arithmetic over sorted groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Double = tuple[Floats, Floats]
"""A number as the exact sum of two floats, about 106 bits: sums that are undone leave no dirt."""


def order_by_id_and_time(ids: Ids, times: Ints) -> Ints:
    """Positions that sort by id, then by time; rows equal in both keep their order."""
    if len(ids) < 2:
        return np.arange(len(ids))
    if len(ids) < 5_000:
        return np.lexsort((times, ids))
    unique, rank = np.unique(ids, return_inverse=True)
    low = int(times.min())
    span = int(times.max()) - low + 1
    if span <= 0 or len(unique) * span >= 2**63:
        return np.lexsort((times, rank))
    return np.argsort(rank * np.int64(span) + (times - np.int64(low)), kind="stable")


def is_first(*keys: npt.NDArray[Any]) -> Mask:
    """Marks the first row of every group of equal keys, in sorted columns."""
    length = len(keys[0])
    first = np.ones(length, np.bool_)
    if length > 1:
        same = np.ones(length - 1, np.bool_)
        for key in keys:
            same &= key[1:] == key[:-1]
        first[1:] = ~same
    return first


def is_last(*keys: npt.NDArray[Any]) -> Mask:
    """Marks the last row of every group of equal keys, in sorted columns."""
    first = is_first(*keys)
    last = np.ones(len(first), np.bool_)
    last[:-1] = first[1:]
    return last


def positions_of(starts: Ints, stops: Ints) -> tuple[Ints, Ints]:
    """All positions in the ranges [start, stop), and the number of the range of each.

    >>> [a.tolist() for a in positions_of(np.array([5, 0, 9]), np.array([7, 0, 10]))]
    [[5, 6, 9], [0, 0, 2]]
    """
    lengths = np.maximum(stops - starts, 0)
    owner = np.repeat(np.arange(len(starts)), lengths)
    before = np.cumsum(lengths) - lengths
    return np.arange(len(owner)) - before[owner] + starts[owner], owner


def group_sums(values: Ints, group_start: Ints) -> Ints:
    """Running sums that begin anew at every group; `group_start` is the first row of each row's."""
    total = np.cumsum(values)
    before = total[group_start] - values[group_start]
    return np.asarray(total - before)


def group_starts(first: Mask) -> Ints:
    """For every row the position of the first row of its group."""
    return np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))


def last_marked(marked: Mask, group_start: Ints) -> Ints:
    """For every row the nearest marked row at or before it in its group, or -1."""
    latest = np.maximum.accumulate(np.where(marked, np.arange(len(marked)), -1))
    return np.where(latest >= group_start, latest, -1)


def next_marked(marked: Mask, last: Mask) -> Ints:
    """For every row the nearest marked row after it in its group, or -1."""
    length = len(marked)
    if not length:
        return np.empty(0, np.int64)
    places = np.where(marked, np.arange(length), length)
    following = np.minimum.accumulate(places[::-1])[::-1]
    following = np.append(following[1:], length)
    ends = np.where(last, np.arange(length), length)
    group_end = np.minimum.accumulate(ends[::-1])[::-1]
    return np.where(following <= group_end, following, -1)


def two_sum(a: Floats, b: Floats) -> Double:
    """The rounded sum and its rounding error, exactly (Knuth, TAOCP 4.2.2)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def add_doubles(a: Double, b: Double) -> Double:
    """The sum of two doubled numbers."""
    high, error = two_sum(a[0], b[0])
    return two_sum(high, error + (a[1] + b[1]))


def multiply_exactly(a: Floats, b: Floats) -> Double:
    """The rounded product and its rounding error (Dekker 1971; no overflow below 1e290)."""
    product = a * b
    a_high = (a * 134217729.0) - ((a * 134217729.0) - a)
    b_high = (b * 134217729.0) - ((b * 134217729.0) - b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def group_double_sums(values: Double, group_start: Ints) -> Double:
    """Running sums of doubled numbers that begin anew at every group (log-step scan)."""
    high, low = values[0].copy(), values[1].copy()
    offset = np.arange(len(high)) - group_start
    step, longest = 1, int(offset.max(initial=0))
    while step <= longest:
        rows = np.flatnonzero(offset >= step)
        high[rows], low[rows] = add_doubles(
            (high[rows], low[rows]), (high[rows - step], low[rows - step])
        )
        step *= 2
    return high, low
