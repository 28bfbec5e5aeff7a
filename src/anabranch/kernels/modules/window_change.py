"""One batch: ask user operators about the windows it changes, diff with the stored results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import Hopping
from anabranch.kernels.columns.grouped import Mask
from anabranch.kernels.contract.column_names import END, ID, MEMBERS, TIME, WEND
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.modules.empty_windows import empty_windows
from anabranch.kernels.modules.failures import Failures, no_members
from anabranch.kernels.modules.operator_windows import ask_all
from anabranch.kernels.modules.window_answers import (
    WindowResults,
    answer_rows,
    answers_before,
    moves,
    within_bounds,
)
from anabranch.kernels.modules.window_bags import negative, numbers, sorted_rows
from anabranch.kernels.modules.window_events import WindowLayout, Windows
from anabranch.kernels.modules.window_planning import Frontier, WindowPlan, seen_until
from anabranch.kernels.modules.window_states import (
    WindowStates,
    current_states,
    group_keys,
    update_states,
)
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.netting import net
from anabranch.model.time import FOREVER


@final
@dataclass(frozen=True, slots=True, eq=False)
class TraceLists:
    """The lists of a trace that a change reads; `events` are those with the batch."""

    answers: Sequence[SortedRun]
    states: Sequence[SortedRun]
    waiting: Sequence[SortedRun]
    groups: Sequence[SortedRun]
    events: Sequence[SortedRun]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What leaves, and rows to be added to the lists of the trace."""

    output: EventBatch
    waiting: pa.RecordBatch
    answers: pa.RecordBatch
    states: pa.RecordBatch
    groups: pa.RecordBatch
    failures: SortedRun | None


def change_windows(
    node: ApplyOperator,
    layout: WindowLayout,
    lists: TraceLists,
    frontier: Frontier,
    plan: WindowPlan,
    ready: pa.RecordBatch,
    shown: Mask,
) -> Change:
    """Ask about windows, and find out what is new.

    Args:
        node: The node.
        layout: Its layout.
        lists: The lists of the trace.
        frontier: How far time has come.
        plan: What happens to windows.
        ready: Rows of windows that waited for their end, and are shown now.
        shown: Which of the changed windows are shown.
    """
    failures = Failures(node, layout, plan.members)
    gone = Windows.union(plan.gone, _beyond(node, layout, lists, frontier))
    waited = Windows(numbers(ready, ID), numbers(ready, TIME), numbers(ready, WEND))
    asked = Windows.union(plan.changed.take(shown), waited)
    asked = _without(node, asked, gone, frontier)
    window_states, states = WindowStates.none(layout, len(asked)), no_rows(layout.state_bag.schema)
    if layout.states:
        updated, states = update_states(node, layout, lists.states, plan, gone, failures)
        window_states = current_states(layout, lists.states, asked, plan, updated)
    results = _ask(node, layout, asked, window_states, plan, failures)
    old = answers_before(layout, lists.answers, Windows.union(asked, gone))
    new = answer_rows(layout, results)
    if node.timestamps == "time_bound":
        old, new = within_bounds(node, old, new, results, frontier.stable[0], failures)
    output = [moves(node, layout, old, come=False), moves(node, layout, new, come=True)]
    groups = no_rows(layout.groups.schema)
    if node.empty and frontier.stable[1] > frontier.stable[0]:
        runs = (lists.groups, lists.events)
        nothing, groups = empty_windows(node, layout, runs, frontier, failures)
        output.append(moves(node, layout, answer_rows(layout, nothing), come=True))
    return Change(
        output=net(EventBatch.concat(output)),
        waiting=_waiting(layout, lists.waiting, plan.changed.take(~shown), ready, gone),
        answers=sorted_rows(negative(old), new),
        states=states,
        groups=groups,
        failures=failures.run(),
    )


def _is_cut(node: ApplyOperator, frontier: Frontier) -> bool:
    """Whether time is over, and some events never end."""
    over = frontier.stable[1] == FOREVER
    return over and isinstance(node.window, Hopping) and not node.input.properties.only_points


def _beyond(
    node: ApplyOperator, layout: WindowLayout, lists: TraceLists, frontier: Frontier
) -> Windows:
    """At the end of time: windows with results that begin after everything that happened."""
    if not _is_cut(node, frontier):
        return Windows.none()
    rows = layout.answers.where(
        lists.answers, lambda rows: numbers(rows, TIME) >= frontier.begun(numbers(rows, ID))
    )
    return Windows.of(numbers(rows, ID), numbers(rows, TIME), numbers(rows, WEND))[0]


def _without(node: ApplyOperator, windows: Windows, gone: Windows, frontier: Frontier) -> Windows:
    """Windows that are still there."""
    there = gone.find(windows.ids, windows.start, windows.end) < 0
    if _is_cut(node, frontier):
        there &= windows.start < frontier.begun(windows.ids)
    return windows.take(there)


def _ask(
    node: ApplyOperator,
    layout: WindowLayout,
    asked: Windows,
    states: WindowStates,
    plan: WindowPlan,
    failures: Failures,
) -> WindowResults:
    """The results of those windows that have events."""
    members = None
    if layout.states < len(node.calls):
        members = plan.members(asked)
        counts = np.bincount(members.owner, members.count, len(asked)).astype(np.int64)
    else:
        counts = states.column(MEMBERS, 0)
    occupied = np.flatnonzero(counts > 0)
    windows, states = asked.take(occupied), states.take(occupied)
    if members is not None:
        back = np.full(len(asked), -1)
        back[occupied] = np.arange(len(occupied))
        members = members.owned(back[members.owner])
        until = seen_until(node, windows, members)
    else:
        until = states.column(END, 0)
    pairs = no_members(layout) if members is None else members
    keys = group_keys(layout, len(windows), pairs, states)
    # These were reported when their states could not be made.
    failed = frozenset(np.flatnonzero(states.failed()).tolist())
    rows = ask_all(node, layout, windows, members, states.states(layout), failed)
    failures.note(rows.failures, windows, keys)
    return WindowResults(windows, until, keys, rows)


def _waiting(
    layout: WindowLayout,
    runs: Sequence[SortedRun],
    later: Windows,
    ready: pa.RecordBatch,
    gone: Windows,
) -> pa.RecordBatch:
    """What becomes of the list of windows that wait for their end."""
    bag = layout.windows
    ones = np.ones(len(later), np.int64)
    rows, owner = bag.at(runs, gone.ids, gone.start)
    lost = rows.take(pa.array(np.flatnonzero(numbers(rows, WEND) == gone.end[owner])))
    popped = Windows(numbers(ready, ID), numbers(ready, TIME), numbers(ready, WEND))
    still = popped.find(*(numbers(lost, name) for name in (ID, TIME, WEND))) < 0
    lost = lost.take(pa.array(np.flatnonzero(still)))
    more = bag.rows(later.ids, later.start, later.end, ones, [pa.array(later.end)])
    return sorted_rows(negative(ready), negative(lost), more)
