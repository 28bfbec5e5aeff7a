"""Windows that events make: which a batch changes, and which events are in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import CountByStart, Snapshot
from anabranch.kernels.columns.grouped import Ids, Ints, Mask, positions_of
from anabranch.kernels.contract.column_names import END, TIME, WEND
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.modules.axis_spans import Spans, spans_of
from anabranch.kernels.modules.window_bags import numbers
from anabranch.kernels.modules.window_events import (
    WindowLayout,
    WindowMembers,
    Windows,
    concat_members,
    netted,
)
from anabranch.kernels.modules.window_planning import (
    WindowPlan,
    mixed_hash,
    present,
    refuse_mixed,
    seen_until,
    visible,
)
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.time import FOREVER, Time


def span_plan(
    node: ApplyOperator,
    layout: WindowLayout,
    runs: tuple[Sequence[SortedRun], Sequence[SortedRun]],
    groups: Ids,
    line: Ints,
) -> WindowPlan:
    """Windows that events make: those of some groups, before a batch and with it.

    What lies before the `line` of its group has been forgotten, or might have been.
    """
    old, old_pairs, _ = _spanned(node, layout, runs[0], groups, line)
    new, new_pairs, now = _spanned(node, layout, runs[1], groups, line)
    where = new.find(old.ids, old.start, old.end)
    changes = _differ((old, old_pairs), (new, new_pairs), where)
    changed = new.take(changes)
    # What began at the same instant is what a window has grown out of, or was cut from.
    since = old.starting(changed.ids, changed.start)
    index = np.where(changes, np.cumsum(changes) - 1, -1)
    heir = np.full(len(old), -1)
    heir[since[since >= 0]] = np.flatnonzero(since >= 0)
    lost = old_pairs.owned(heir[old_pairs.owner])
    more = concat_members(new_pairs.owned(index[new_pairs.owner]), replace(lost, count=-lost.count))

    def members(windows: Windows) -> WindowMembers:
        at = new.find(windows.ids, windows.start, windows.end)
        wanted = np.full(len(new), -1)
        wanted[at[at >= 0]] = np.flatnonzero(at >= 0)
        return new_pairs.owned(wanted[new_pairs.owner])

    return WindowPlan(
        changed=changed,
        gone=old.take(where < 0),
        more=netted(more) if len(more) else more,
        since=since,
        old=old,
        members=members,
        groups=groups,
        now=now,
    )


def _spanned(
    node: ApplyOperator, layout: WindowLayout, runs: Sequence[SortedRun], groups: Ids, line: Ints
) -> tuple[Windows, WindowMembers, pa.RecordBatch]:
    """The windows of groups, the events in them, and rows for the list of windows."""
    rows, group = layout.events.of(runs, groups)
    keep = np.flatnonzero(matters(node, rows, line[group]))
    rows, group = present(node, rows.take(pa.array(keep))), group[keep]
    refuse_mixed(layout, rows, group)
    start, stop = numbers(rows, TIME), numbers(rows, END)
    spans = spans_of(node.window, group, start, stop)
    span, row = positions_of(spans.low, spans.high)
    occupied = np.zeros(len(spans.group), np.bool_)
    occupied[span] = True
    windows = Windows(groups[spans.group[occupied]], spans.start[occupied], spans.end[occupied])
    owner = (np.cumsum(occupied) - 1)[span]
    seen = visible(node, (windows.start[owner], windows.end[owner]), start[row], stop[row])
    count = numbers(rows, COUNT)[row]
    about = rows.select([name for name, _ in layout.about])
    pairs = WindowMembers(owner, row, count, start[row], stop[row], *seen, about)
    return windows, pairs, _window_rows(node, layout, groups, spans, windows, pairs)


def _window_rows(
    node: ApplyOperator,
    layout: WindowLayout,
    groups: Ids,
    spans: Spans,
    windows: Windows,
    pairs: WindowMembers,
) -> pa.RecordBatch:
    """All windows, with the time from which on they stay; what is not complete may always grow."""
    growing = np.flatnonzero(~spans.complete)
    forever = np.full(len(growing), FOREVER)
    return layout.windows.rows(
        np.concatenate([windows.ids, groups[spans.group[growing]]]),
        np.concatenate([windows.start, spans.start[growing]]),
        np.concatenate([seen_until(node, windows, pairs), forever]),
        np.ones(len(windows) + len(growing), np.int64),
        [pa.array(np.concatenate([windows.end, forever]))],
    )


def _differ(
    old: tuple[Windows, WindowMembers], new: tuple[Windows, WindowMembers], where: Ints
) -> Mask:
    """Which of the new windows were not there, or have other events, by sums of hashes."""
    sums = []
    for windows, pairs in (old, new):
        each = []
        for value in pairs.hashes():
            mixed = mixed_hash(value, pairs.begin, pairs.since, pairs.until)
            total = np.zeros(len(windows), np.uint64)
            np.add.at(total, pairs.owner, mixed * pairs.count.astype(np.uint64))
            each.append(total)
        sums.append(each)
    changed = np.ones(len(new[0]), np.bool_)
    there = np.flatnonzero(where >= 0)
    at = where[there]
    same = np.ones(len(there), np.bool_)
    for before, after in zip(*sums):
        same &= before[there] == after[at]
    changed[at[same]] = False
    return changed


def matters(node: ApplyOperator, rows: pa.RecordBatch, line: Ints | int) -> Mask:
    """Which events may be in windows that begin at the line of their group, or later."""
    times = numbers(rows, TIME if isinstance(node.window, CountByStart) else END)
    return np.asarray(times >= line)


def lines_of(layout: WindowLayout, runs: Sequence[SortedRun], groups: Ids, stable: Time) -> Ints:
    """For each group the start of the earliest window that may still change, or what is promised.

    `runs` are those of the list of windows.
    """
    rows, group = layout.windows.of(runs, groups)
    line = np.full(len(groups), stable)
    alive = np.flatnonzero((numbers(rows, COUNT) > 0) & (numbers(rows, END) > stable))
    np.minimum.at(line, group[alive], numbers(rows, TIME)[alive])
    return line


def open_since(
    layout: WindowLayout, runs: Sequence[SortedRun], stable: Time, *, ends_settle: bool
) -> int:
    """The start of the earliest window made by events that may still change, or FOREVER."""
    rows = layout.windows.where(runs, lambda rows: numbers(rows, END) > stable)
    there = numbers(rows, COUNT) > 0
    if ends_settle:
        there &= numbers(rows, WEND) > stable
    return int(numbers(rows, TIME)[there].min(initial=FOREVER))


def ends_settle(node: ApplyOperator) -> bool:
    """True if the result of a window is settled up to its end, though that may still move.

    If it moves, the result holds longer, and that is all.
    """
    return isinstance(node.window, Snapshot) and not node.time_sensitive and node.columns is None
