"""Windows that events make: those of many groups at once, and the events in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from anabranch.algebra.modules.axis_window import (
    AxisWindow,
    CountByEnd,
    CountByStart,
    Session,
    Snapshot,
)
from anabranch.kernels.columns.grouped import Ints, Mask, group_max, group_starts, is_first, is_last
from anabranch.model.time import FOREVER, add_saturating


@final
@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Windows by group and start; and for every event the range of windows [low, high) it is in.

    What is not `complete` is no window yet: its end is unknown.
    """

    group: Ints
    start: Ints
    end: Ints
    complete: Mask
    low: Ints
    high: Ints


def spans_of(window: AxisWindow, group: Ints, start: Ints, end: Ints) -> Spans:
    """The windows of events, whose groups are small numbers."""
    match window:
        case Snapshot():
            return _snapshots(group, start, end)
        case Session():
            return _sessions(group, start, end, window.gap)
        case CountByStart():
            every = np.ones(len(group), np.bool_)
            return _counted(group, start, every, window.count)
        case CountByEnd():
            return _counted(group, end, end < FOREVER, window.count)
    raise AssertionError(window)


def _ranked(group: Ints, times: Ints) -> tuple[Ints, Ints, Ints]:
    """Distinct instants of groups in order, and the index of each given instant among them."""
    order = np.lexsort((times, group))
    first = is_first(group[order], times[order])
    index = np.empty(len(order), np.int64)
    index[order] = np.cumsum(first) - 1
    distinct = order[first]
    return group[distinct], times[distinct], index


def _snapshots(group: Ints, start: Ints, end: Ints) -> Spans:
    owner, times, index = _ranked(np.concatenate([group, group]), np.concatenate([start, end]))
    # Every group has one window less than ends.
    first, last = is_first(owner), is_last(owner)
    before = np.cumsum(first) - 1
    low, high = (index[: len(group)], index[len(group) :])
    begins = np.flatnonzero(~last)
    return Spans(
        owner[begins],
        times[begins],
        times[begins + 1],
        np.ones(len(begins), np.bool_),
        low - before[low],
        high - before[high],
    )


def _sessions(group: Ints, start: Ints, end: Ints, gap: int) -> Spans:
    order = np.lexsort((start, group))
    owner, since = group[order], start[order]
    over = np.where(end[order] < FOREVER, add_saturating(end[order] - 1, gap), FOREVER)
    first = is_first(owner)
    latest = group_max(over, group_starts(first))
    begins = first.copy()
    begins[1:] |= since[1:] >= latest[:-1]
    number = np.cumsum(begins) - 1
    ends = np.flatnonzero(np.append(begins[1:], True)[: len(begins)])
    low = np.empty(len(order), np.int64)
    low[order] = number
    return Spans(
        owner[begins],
        since[begins],
        latest[ends],
        np.ones(len(ends), np.bool_),
        low,
        low + 1,
    )


def _counted(group: Ints, times: Ints, counts: Mask, count: int) -> Spans:
    owner, instants, ranks = _ranked(group[counts], times[counts])
    first, last = is_first(owner), is_last(owner)
    begin = group_starts(first)
    ends = np.flatnonzero(last)
    stop = ends[np.cumsum(first) - 1] if len(owner) else np.empty(0, np.int64)
    every = np.arange(len(owner))
    full = every + count - 1
    complete = full <= stop
    until = instants[np.minimum(full, stop)]
    end = np.where(complete, add_saturating(until, 1), FOREVER)
    low, high = np.zeros(len(group), np.int64), np.zeros(len(group), np.int64)
    low[counts] = np.maximum(begin[ranks], ranks - count + 1)
    high[counts] = np.minimum(ranks, stop[ranks] - count + 1) + 1
    return Spans(owner, instants, end, complete, low, high)
