"""The states that modules keep of windows: told what came and left, or made anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.apply_module import ApplyModule
from anabranch.kernels.columns.grouped import Ints, Mask
from anabranch.kernels.contract.column_names import END, MEMBERS, WEND
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.contract.keys import ids_and_checks
from anabranch.kernels.modules.failures import Failures
from anabranch.kernels.modules.module_windows import States, advance
from anabranch.kernels.modules.window_bags import negative, numbers, sorted_rows
from anabranch.kernels.modules.window_events import (
    WindowLayout,
    WindowMembers,
    Windows,
    put_together,
)
from anabranch.kernels.modules.window_planning import WindowPlan, ends_of, until_of
from anabranch.model.batch import no_rows
from anabranch.model.time import BEGINNING, add_saturating


@final
@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """States of windows: the rows that hold them, and for each window its row or -1."""

    rows: pa.RecordBatch
    place: Ints

    @staticmethod
    def none(layout: WindowLayout, windows: int) -> Held:
        """No states of so many windows."""
        return Held(no_rows(layout.kept.schema), np.full(windows, -1))

    @staticmethod
    def of(layout: WindowLayout, runs: Sequence[SortedRun], windows: Windows) -> Held:
        """The states that a trace has of some windows."""
        rows, owner = layout.kept.at(runs, windows.ids, windows.start)
        own = np.flatnonzero(numbers(rows, WEND) == windows.end[owner])
        place = np.full(len(windows), -1)
        place[owner[own]] = np.arange(len(own))
        return Held(rows.take(pa.array(own)), place)

    def take(self, places: Ints) -> Held:
        """Those of some windows."""
        return Held(self.rows, self.place[places])

    def states(self, layout: WindowLayout) -> States:
        """The states, window by window."""
        found = []
        for number in range(layout.states):
            data = self.rows.column(f"state{number}").to_pylist()
            found.append([data[at] if at >= 0 else None for at in self.place.tolist()])
        return States(tuple(found))

    def failed(self) -> Mask:
        """Windows whose states could not be made."""
        if "state0" not in self.rows.schema.names:
            return np.zeros(len(self.place), np.bool_)
        nulls = self.rows.column("state0").is_null().to_numpy(zero_copy_only=False)
        return np.asarray((self.place >= 0) & np.append(nulls, False)[self.place])

    def column(self, name: str, default: int) -> Ints:
        """A number of each window."""
        return np.append(numbers(self.rows, name), default)[self.place]


def group_keys(
    layout: WindowLayout, windows: int, pairs: WindowMembers, held: Held
) -> list[pa.Array]:
    """What windows are grouped by: their events say it, or their states."""
    first = np.full(windows, -1)
    first[pairs.owner[::-1]] = pairs.row[::-1]
    place = np.where(first >= 0, first, held.place + pairs.rows.num_rows)
    where = pa.array(place, mask=(first < 0) & (held.place < 0))
    return [
        pa.concat_arrays([pairs.rows.column(name), held.rows.column(name)]).take(where)
        for name in layout.key_names
    ]


def update_states(
    node: ApplyModule,
    layout: WindowLayout,
    runs: Sequence[SortedRun],
    plan: WindowPlan,
    gone: Windows,
    failures: Failures,
) -> tuple[Held, pa.RecordBatch]:
    """Let modules with states know what came and left.

    Args:
        node: The node.
        layout: Its layout.
        runs: The states that there were.
        plan: What happens to windows.
        gone: Windows that are no more.
        failures: Where it is noted that a module failed.

    Returns:
        The states of the changed windows as they are now, and what changes in the list.
    """
    windows = plan.changed
    based = plan.since >= 0
    bases = plan.known.take(plan.since[based])
    prior = Windows.union(bases, gone)
    held = Held.of(layout, runs, prior)
    place = np.full(len(windows), -1)
    place[based] = held.place[prior.find(bases.ids, bases.start, bases.end)]
    again, more = _told_anew(node, plan, Held(held.rows, place))
    before = Held(held.rows, np.where(again, -1, place))
    keys = group_keys(layout, len(windows), more, Held(held.rows, place))
    after, problems = advance(node, layout, windows, before.states(layout), more)
    failures.note(problems, windows, keys)
    counts = before.column(MEMBERS, 0)
    np.add.at(counts, more.owner, more.count)
    until = _until(node, plan, more, before)
    some = np.flatnonzero(counts > 0)
    fresh = _state_rows(layout, windows, until, counts, keys, after, some)
    now = np.full(len(windows), -1)
    now[some] = np.arange(len(some))
    return Held(fresh, now), sorted_rows(negative(held.rows), fresh)


def _told_anew(node: ApplyModule, plan: WindowPlan, before: Held) -> tuple[Mask, WindowMembers]:
    """Which windows need new states; what came and left, and all events of those windows."""
    again, more = before.failed(), plan.more
    if any(not call.module.removes for call in node.calls):
        again[more.owner[more.count < 0]] = True
    if again.any():
        some = np.flatnonzero(again)
        members = plan.members(plan.changed.take(some))
        more = put_together(more.take(~again[more.owner]), members.owned(some[members.owner]))
    return again, more


def _until(node: ApplyModule, plan: WindowPlan, more: WindowMembers, before: Held) -> Ints:
    """From when on nothing that modules see of windows can change any more."""
    windows = plan.changed
    until = until_of(node, windows)
    if not node.sees_ends:
        return until
    kept = before.column(END, BEGINNING)
    ends = np.maximum(kept, ends_of(len(windows), more))
    # Where an end moved away that kept a window, the others say how long it stays.
    left = more.take(more.count < 0)
    late = add_saturating(left.stop, 1) >= kept[left.owner]
    some = np.unique(left.owner if plan.groups is not None else left.owner[late])
    if len(some):
        ends[some] = ends_of(len(some), plan.members(windows.take(some)))
    return np.maximum(until, ends)


def _state_rows(
    layout: WindowLayout,
    windows: Windows,
    until: Ints,
    counts: Ints,
    keys: Sequence[pa.Array],
    states: States,
    some: Ints,
) -> pa.RecordBatch:
    """Rows with the states of some windows, in their order."""
    chosen, where = windows.take(some), pa.array(some)
    blobs = [pa.array([each[at] for at in some.tolist()], pa.binary()) for each in states.each]
    row, check = ids_and_checks(blobs, len(some))
    return layout.kept.rows(
        chosen.ids,
        chosen.start,
        until[some],
        np.ones(len(some), np.int64),
        [
            pa.array(chosen.end),
            pa.array(counts[some]),
            pa.array(row),
            pa.array(check),
            *(key.take(where) for key in keys),
            *blobs,
        ],
    )


def current_states(
    layout: WindowLayout, runs: Sequence[SortedRun], asked: Windows, plan: WindowPlan, updated: Held
) -> Held:
    """The states of windows: those that have just changed, and those of a trace."""
    at = plan.changed.find(asked.ids, asked.start, asked.end)
    others = np.flatnonzero(at < 0)
    held = Held.of(layout, runs, asked.take(others))
    place = np.append(updated.place, -1)[at]
    place[others] = held.place + np.where(held.place >= 0, updated.rows.num_rows, 0)
    parts = [rows.replace_schema_metadata(None) for rows in (updated.rows, held.rows)]
    return Held(pa.concat_batches(parts), place)
