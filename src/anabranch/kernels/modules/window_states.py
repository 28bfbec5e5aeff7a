"""States of incremental user operators: moved by the events that came and left, or rebuilt.

A state row is (group, window start, window end, number of member events, keys, one blob per
incremental call). The invariant: the blob is what `initial` gives after `add` and `remove` of a
sequence of events whose net effect is exactly the events that are in the window now. So a state
depends on the history only if the user operator breaks its promise that `remove` undoes `add`.

What happens to the state of a changed window (`plan.since` says which old window it comes from):
- the old state is read, events that left are removed and those that came are added, earliest first,
  and among equal begins those that came before those that left;
- if something left and a user operator cannot remove, or the old state failed, the window is
  *rebuilt*: `initial`, then `add` of all its events, for which events are kept;
- with no events left, the row is dropped; the blob NULL marks a state that could not be made.

Example, a sum over the window [0, 10) with events 3 at 2 and 4 at 5: state 7, members 2. A batch
withdraws 3 and inserts 1 at 7. With `remove`: remove(7, 3) = 4, add(4, 1) = 5, two calls. Without:
initial() = 0, add 4, add 1 = 5, all events of the window. Either way the old row is written with
count -1 and the new one with +1.

Cost: calls for what came and left, not for what is in the window; a rebuilt window costs all its
events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.kernels.columns.grouped import Ints, Mask
from anabranch.kernels.contract.column_names import END, MEMBERS, WEND
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.contract.keys import ids_and_checks
from anabranch.kernels.modules.failures import Failures
from anabranch.kernels.modules.operator_windows import States, advance
from anabranch.kernels.modules.window_bags import negative, numbers, sorted_rows
from anabranch.kernels.modules.window_events import (
    WindowLayout,
    WindowMembers,
    Windows,
    concat_members,
)
from anabranch.kernels.modules.window_planning import WindowPlan, ends_of, until_of
from anabranch.model.batch import no_rows
from anabranch.model.time import BEGINNING, add_saturating


@final
@dataclass(frozen=True, slots=True, eq=False)
class WindowStates:
    """States of windows: the rows that hold them, and per window the index of its row or -1."""

    rows: pa.RecordBatch
    row: Ints

    @staticmethod
    def none(layout: WindowLayout, windows: int) -> WindowStates:
        """No states of so many windows."""
        return WindowStates(no_rows(layout.state_bag.schema), np.full(windows, -1))

    @staticmethod
    def of(layout: WindowLayout, runs: Sequence[SortedRun], windows: Windows) -> WindowStates:
        """The states that a trace has of windows."""
        rows, owner = layout.state_bag.at(runs, windows.ids, windows.start)
        own = np.flatnonzero(numbers(rows, WEND) == windows.end[owner])
        row = np.full(len(windows), -1)
        row[owner[own]] = np.arange(len(own))
        return WindowStates(rows.take(pa.array(own)), row)

    def take(self, windows: Ints) -> WindowStates:
        """The states of the windows at these indexes."""
        return WindowStates(self.rows, self.row[windows])

    def states(self, layout: WindowLayout) -> States:
        """The states, window by window."""
        found = []
        for number in range(layout.states):
            data = self.rows.column(f"state{number}").to_pylist()
            found.append([data[at] if at >= 0 else None for at in self.row.tolist()])
        return States(tuple(found))

    def failed(self) -> Mask:
        """Windows whose states could not be made."""
        if "state0" not in self.rows.schema.names:
            return np.zeros(len(self.row), np.bool_)
        nulls = self.rows.column("state0").is_null().to_numpy(zero_copy_only=False)
        return np.asarray((self.row >= 0) & np.append(nulls, False)[self.row])

    def column(self, name: str, default: int) -> Ints:
        """A number of each window."""
        return np.append(numbers(self.rows, name), default)[self.row]


def group_keys(
    layout: WindowLayout, windows: int, pairs: WindowMembers, states: WindowStates
) -> list[pa.Array]:
    """The group keys of windows, from one of their events or from their states."""
    first = np.full(windows, -1)
    first[pairs.owner[::-1]] = pairs.row[::-1]
    source = np.where(first >= 0, first, states.row + pairs.rows.num_rows)
    where = pa.array(source, mask=(first < 0) & (states.row < 0))
    return [
        pa.concat_arrays([pairs.rows.column(name), states.rows.column(name)]).take(where)
        for name in layout.key_names
    ]


def update_states(
    node: ApplyOperator,
    layout: WindowLayout,
    runs: Sequence[SortedRun],
    plan: WindowPlan,
    gone: Windows,
    failures: Failures,
) -> tuple[WindowStates, pa.RecordBatch]:
    """Move the states of incremental user operators by the events that came and left.

    Args:
        node: The node.
        layout: Its layout.
        runs: The stored states.
        plan: What happens to windows.
        gone: Windows that are no more.
        failures: Where it is noted that a user operator failed.

    Returns:
        The states of the changed windows as they are now, and the rows that change the list.
    """
    windows = plan.changed
    based = plan.since >= 0
    bases = plan.old.take(plan.since[based])
    prior = Windows.union(bases, gone)
    states = WindowStates.of(layout, runs, prior)
    row = np.full(len(windows), -1)
    row[based] = states.row[prior.find(bases.ids, bases.start, bases.end)]
    again, more = _rebuilt(node, plan, WindowStates(states.rows, row))
    before = WindowStates(states.rows, np.where(again, -1, row))
    keys = group_keys(layout, len(windows), more, WindowStates(states.rows, row))
    after, problems = advance(node, layout, windows, before.states(layout), more)
    failures.note(problems, windows, keys)
    counts = before.column(MEMBERS, 0)
    np.add.at(counts, more.owner, more.count)
    until = _until(node, plan, more, before)
    occupied = np.flatnonzero(counts > 0)
    fresh = _state_rows(layout, windows, until, counts, keys, after, occupied)
    now = np.full(len(windows), -1)
    now[occupied] = np.arange(len(occupied))
    return WindowStates(fresh, now), sorted_rows(negative(states.rows), fresh)


def _rebuilt(
    node: ApplyOperator, plan: WindowPlan, before: WindowStates
) -> tuple[Mask, WindowMembers]:
    """The windows to rebuild; and what to add and remove: moves, or all events of those windows."""
    again, more = before.failed(), plan.more
    if any(not call.operator.removes for call in node.calls):
        again[more.owner[more.count < 0]] = True
    if again.any():
        rebuilt = np.flatnonzero(again)
        members = plan.members(plan.changed.take(rebuilt))
        more = concat_members(more.take(~again[more.owner]), members.owned(rebuilt[members.owner]))
    return again, more


def _until(
    node: ApplyOperator, plan: WindowPlan, more: WindowMembers, before: WindowStates
) -> Ints:
    """From when on nothing that user operators see of windows can change any more."""
    windows = plan.changed
    until = until_of(node, windows.end)
    if not node.sees_ends:
        return until
    kept = before.column(END, BEGINNING)
    ends = np.maximum(kept, ends_of(len(windows), more))
    # Where the latest end moved away, the remaining events decide how long the window stays open.
    left = more.take(more.count < 0)
    late = add_saturating(left.stop, 1) >= kept[left.owner]
    shrunk = np.unique(left.owner if plan.groups is not None else left.owner[late])
    if len(shrunk):
        ends[shrunk] = ends_of(len(shrunk), plan.members(windows.take(shrunk)))
    return np.maximum(until, ends)


def _state_rows(
    layout: WindowLayout,
    windows: Windows,
    until: Ints,
    counts: Ints,
    keys: Sequence[pa.Array],
    states: States,
    chosen_rows: Ints,
) -> pa.RecordBatch:
    """Rows with the states of some windows, in their order."""
    chosen, where = windows.take(chosen_rows), pa.array(chosen_rows)
    blobs = [
        pa.array([each[at] for at in chosen_rows.tolist()], pa.binary()) for each in states.each
    ]
    row, check = ids_and_checks(blobs, len(chosen_rows))
    return layout.state_bag.rows(
        chosen.ids,
        chosen.start,
        until[chosen_rows],
        np.ones(len(chosen_rows), np.int64),
        [
            pa.array(chosen.end),
            pa.array(counts[chosen_rows]),
            pa.array(row),
            pa.array(check),
            *(key.take(where) for key in keys),
            *blobs,
        ],
    )


def current_states(
    layout: WindowLayout,
    runs: Sequence[SortedRun],
    asked: Windows,
    plan: WindowPlan,
    updated: WindowStates,
) -> WindowStates:
    """The states of windows: those that have just changed, and those of a trace."""
    at = plan.changed.find(asked.ids, asked.start, asked.end)
    others = np.flatnonzero(at < 0)
    states = WindowStates.of(layout, runs, asked.take(others))
    row = np.append(updated.row, -1)[at]
    row[others] = states.row + np.where(states.row >= 0, updated.rows.num_rows, 0)
    parts = [rows.replace_schema_metadata(None) for rows in (updated.rows, states.rows)]
    return WindowStates(pa.concat_batches(parts), row)
