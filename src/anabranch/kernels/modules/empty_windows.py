"""Windows of a grid without events: shown when nothing can come into them any more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import Hopping
from anabranch.kernels.columns.grouped import Ints, is_first
from anabranch.kernels.contract.column_names import END, ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.modules.axis_grid import first_open, windows_over
from anabranch.kernels.modules.failures import Failures, no_members
from anabranch.kernels.modules.operator_windows import States, ask_all
from anabranch.kernels.modules.window_answers import WindowResults
from anabranch.kernels.modules.window_bags import numbers, sorted_rows
from anabranch.kernels.modules.window_events import WindowLayout, Windows
from anabranch.kernels.modules.window_planning import Frontier
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.time import BEGINNING, FOREVER, Time


def empty_windows(
    node: ApplyOperator,
    layout: WindowLayout,
    runs: tuple[Sequence[SortedRun], Sequence[SortedRun]],
    frontier: Frontier,
    failures: Failures,
) -> tuple[WindowResults, pa.RecordBatch]:
    """Results of empty windows that have just ended for good, of groups that have begun.

    Args:
        node: The node.
        layout: Its layout.
        runs: The groups that have begun, and the events.
        frontier: How far time has come.
        failures: Where it is noted that a user operator failed.

    Returns:
        The results, and the groups that have begun with this batch.
    """
    window = node.window
    assert isinstance(window, Hopping)
    before, now = frontier.stable
    # Events may have ended before, in windows that end only now.
    line = first_open(window, before)
    events = layout.events.where(runs[1], lambda rows: numbers(rows, END) > line)
    row, occupied = _occupied(window, events, frontier)
    fresh = _begun(layout, runs[0], events, row, occupied)
    listed = layout.groups.where(runs[0], lambda rows: numbers(rows, COUNT) != 0)
    groups = sorted_rows(listed, fresh)
    ids, first = numbers(groups, ID), numbers(groups, TIME)
    last = np.full(len(ids), now)
    if now == FOREVER:
        last = np.full(len(ids), BEGINNING)
        np.maximum.at(last, np.searchsorted(ids, occupied.ids), occupied.end)
    owner, start, end = _between(window, first, before, last)
    windows = Windows(ids[owner], start, end)
    none = occupied.find(windows.ids, windows.start, windows.end) < 0
    none &= ~_reached(events, windows) if now == FOREVER else True
    windows, owner = windows.take(none), owner[none]
    keys = [groups.column(name).take(pa.array(owner)) for name in layout.key_names]
    states = States.none(layout.states, len(windows))
    results = ask_all(node, layout, windows, no_members(layout), states, frozenset())
    failures.note(results.failures, windows, keys)
    return WindowResults(windows, windows.end, keys, results), fresh


def _occupied(window: Hopping, events: pa.RecordBatch, frontier: Frontier) -> tuple[Ints, Windows]:
    """The windows with events that have just ended; and for each pair of both the event."""
    before, now = frontier.stable
    since = first_open(window, before)
    row, start, end = windows_over(
        window,
        numbers(events, TIME),
        numbers(events, END),
        # What begins with time itself may have begun before it.
        since=since if since > BEGINNING + 1 else BEGINNING,
        before=frontier.begun(numbers(events, ID)),
    )
    over = np.flatnonzero((end > before) & (end <= now))
    row = row[over]
    return row, Windows.of(numbers(events, ID)[row], start[over], end[over])[0]


def _begun(
    layout: WindowLayout,
    runs: Sequence[SortedRun],
    events: pa.RecordBatch,
    row: Ints,
    occupied: Windows,
) -> pa.RecordBatch:
    """The first windows of groups that have begun with this batch."""
    listed = layout.groups.where(runs, lambda rows: numbers(rows, COUNT) != 0)
    begins = is_first(occupied.ids)
    fresh = ~np.isin(occupied.ids[begins], numbers(listed, ID))
    ids, start = occupied.ids[begins][fresh], occupied.start[begins][fresh]
    of = numbers(events, ID)[row]
    order = np.argsort(of, kind="stable")
    source = row[order[np.searchsorted(of[order], ids)]] if len(ids) else np.empty(0, np.int64)
    keys = [events.column(name).take(pa.array(source)) for name in layout.key_names]
    ones, forever = np.ones(len(ids), np.int64), np.full(len(ids), FOREVER)
    return layout.groups.rows(ids, start, forever, ones, keys)


def _between(window: Hopping, first: Ints, before: Time, last: Ints) -> tuple[Ints, Ints, Ints]:
    """The windows from a first one on that end after an instant and not after a last one."""
    low = np.maximum(first, first_open(window, before))
    owner, start, end = windows_over(window, low, last, inside=np.ones(len(low), np.bool_))
    keep = np.flatnonzero((end <= last[owner]) & (end > before))
    return owner[keep], start[keep], end[keep]


def _reached(events: pa.RecordBatch, windows: Windows) -> np.ndarray:
    """Windows that what never ends reaches into, though nobody looks so far."""
    endless = numbers(events, END) == FOREVER
    ids, start = numbers(events, ID)[endless], numbers(events, TIME)[endless]
    order = np.lexsort((start, ids))
    ids, start = ids[order], start[order]
    first = is_first(ids)
    ids, start = ids[first], start[first]
    if not len(ids):
        return np.zeros(len(windows), np.bool_)
    at = np.minimum(np.searchsorted(ids, windows.ids), len(ids) - 1)
    return np.asarray((ids[at] == windows.ids) & (start[at] < windows.end))
