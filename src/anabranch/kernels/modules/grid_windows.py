"""Windows of a grid: which a batch changes, and which events are in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import Hopping
from anabranch.kernels.columns.grouped import group_max, group_starts, is_first
from anabranch.kernels.contract.column_names import END, ID, NEW_STOP, START, STOP, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.modules.axis_grid import first_open, windows_over
from anabranch.kernels.modules.window_bags import numbers
from anabranch.kernels.modules.window_events import (
    WindowLayout,
    WindowMembers,
    Windows,
    concat_members,
    netted,
    no_pairs,
)
from anabranch.kernels.modules.window_planning import (
    Frontier,
    Horizon,
    WindowPlan,
    present,
    refuse_mixed,
    visible,
)
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.time import BEGINNING, FOREVER, Time


def grid_plan(
    node: ApplyOperator,
    layout: WindowLayout,
    runs: Sequence[SortedRun],
    moves: pa.RecordBatch,
    frontier: Frontier,
) -> WindowPlan:
    """Windows that are there for any events; `runs` have the events with those that came."""
    moved, around = _moved(node, layout, moves, frontier)
    late, begun = _begun_now(node, layout, runs, moves, frontier)
    changed, number = Windows.of(
        np.concatenate([around.ids, begun.ids]),
        np.concatenate([around.start, begun.start]),
        np.concatenate([around.end, begun.end]),
    )
    more = concat_members(moved, late.owned(late.owner + len(around)))
    more = replace(more, owner=number[more.owner])
    if (more.count < 0).any() or len(late):
        more = netted(more)
    used = np.zeros(len(changed), np.bool_)
    used[more.owner] = True
    if not used.all():
        changed, more = changed.take(used), replace(more, owner=(np.cumsum(used) - 1)[more.owner])
    return WindowPlan(
        changed=changed,
        gone=Windows.none(),
        more=more,
        since=np.arange(len(changed)),
        old=changed,
        members=lambda windows: _grid_members(node, layout, runs, windows),
    )


def _moved(
    node: ApplyOperator, layout: WindowLayout, moves: pa.RecordBatch, frontier: Frontier
) -> tuple[WindowMembers, Windows]:
    """What moves take out of windows that had begun, and bring into them."""
    assert isinstance(node.window, Hopping)
    start, stop, new_stop = (numbers(moves, name) for name in (START, STOP, NEW_STOP))
    low, high = np.minimum(stop, new_stop), np.maximum(stop, new_stop)
    inside = np.zeros(len(low), np.bool_)
    if not node.time_sensitive:
        # Those windows only in which there is one event more, or one less.
        inside = low > start
    elif node.sees_ends:
        low = start
    ids = numbers(moves, ID)
    before = np.full(len(ids), FOREVER)
    if not _has_points(node):
        before = np.minimum(frontier.begun(ids), frontier.begun_before)
    owner, begins, ends = windows_over(node.window, low, high, inside=inside, before=before)
    rows = moves.select([name for name, _ in layout.about])
    parts = []
    for sign, last in ((-1, stop), (1, new_stop)):
        there = np.flatnonzero((begins < last[owner]) & (last[owner] > start[owner]))
        row = owner[there]
        seen = visible(node, (begins[there], ends[there]), start[row], last[row])
        count = np.full(len(there), sign)
        parts.append(WindowMembers(there, row, count, start[row], last[row], *seen, rows))
    return concat_members(*parts), Windows(ids[owner], begins, ends)


def _has_points(node: ApplyOperator) -> bool:
    return node.input.properties.only_points


def _begun_now(
    node: ApplyOperator,
    layout: WindowLayout,
    runs: Sequence[SortedRun],
    moves: pa.RecordBatch,
    frontier: Frontier,
) -> tuple[WindowMembers, Windows]:
    """Events that reach into windows that have begun since; points reach nowhere."""
    assert isinstance(node.window, Hopping)
    names = [name for name, _ in layout.about]
    before = frontier.begun_before
    if _has_points(node) or frontier.seen[1] <= frontier.seen[0]:
        return no_pairs(moves.select(names)), Windows.none()
    rows = layout.events.where(runs, lambda rows: numbers(rows, END) > before)
    rows = present(node, rows)
    start, stop = numbers(rows, TIME), numbers(rows, END)
    now = frontier.begun(numbers(rows, ID))
    row, begins, ends = windows_over(node.window, start, stop, since=before, before=now)
    seen = visible(node, (begins, ends), start[row], stop[row])
    count = numbers(rows, COUNT)[row]
    every = np.arange(len(row))
    pairs = WindowMembers(every, row, count, start[row], stop[row], *seen, rows.select(names))
    return pairs, Windows(numbers(rows, ID)[row], begins, ends)


def _grid_members(
    node: ApplyOperator, layout: WindowLayout, runs: Sequence[SortedRun], windows: Windows
) -> WindowMembers:
    """The events of some windows: those of windows that overlap are read once."""
    assert isinstance(node.window, Hopping)
    first = is_first(windows.ids)
    latest = group_max(windows.end, group_starts(first)) if len(windows) else windows.end
    begins = first.copy()
    begins[1:] |= windows.start[1:] >= latest[:-1]
    cuts = np.flatnonzero(begins)
    lasts = np.append(cuts[1:], len(windows)) - 1 if len(cuts) else cuts
    ids, low, high = windows.ids[cuts], windows.start[cuts], latest[lasts]
    rows, stretch = layout.events.over(runs, ids, low, high, points=_has_points(node))
    refuse_mixed(layout, present(node, rows), stretch)
    start, stop = numbers(rows, TIME), numbers(rows, END)
    row, since, until = windows_over(
        node.window, np.maximum(start, low[stretch]), np.minimum(stop, high[stretch])
    )
    owner = windows.find(ids[stretch[row]], since, until)
    keep = np.flatnonzero(owner >= 0)
    owner, row = owner[keep], row[keep]
    seen = visible(node, (windows.start[owner], windows.end[owner]), start[row], stop[row])
    count = numbers(rows, COUNT)[row]
    rows = rows.select([name for name, _ in layout.about])
    return WindowMembers(owner, row, count, start[row], stop[row], *seen, rows)


def grid_line(
    node: ApplyOperator, layout: WindowLayout, runs: Sequence[SortedRun], stable: Time
) -> Time:
    """The start of the earliest window of which something may still change."""
    assert isinstance(node.window, Hopping)
    earliest = int(stable)
    if node.sees_ends and stable > BEGINNING:
        # What ends where the promise stands may still end later.
        rows = layout.events.where(runs, lambda rows: numbers(rows, END) >= stable)
        earliest = min(earliest, int(numbers(rows, TIME).min(initial=FOREVER)))
    return first_open(node.window, earliest)


def horizon_of(layout: WindowLayout, runs: Sequence[SortedRun], stable: Time) -> Horizon:
    """How far what never ends is looked at: to the last start or end of its group.

    Args:
        layout: The layout.
        runs: All events of which a start or end is after the stable point.
        stable: The last that was promised before everything was.
    """
    rows = layout.events.where(runs, lambda rows: numbers(rows, COUNT) != 0)
    ids, end = numbers(rows, ID), numbers(rows, END)
    last = np.where(end < FOREVER, end, numbers(rows, TIME) + 1)
    first = is_first(ids)
    found = np.maximum.reduceat(last, np.flatnonzero(first)) if len(ids) else last
    return Horizon(ids[first], np.maximum(found, stable), int(stable))
