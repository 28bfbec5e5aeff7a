"""Let user operators answer for windows of the time axis: the kernel, and the lists of its trace.

    events    events that a window may still be asked about
    windows   windows that events make (sessions, snapshots), where they may still change
    waiting   changed windows that are not shown yet, as they have not ended
    answers   results of windows that may still change, as they were sent
    states    one state per window and incremental user operator
    groups    groups that have begun, where empty windows count
    progress  the largest start seen
    failures  what the last step reports

Each is a bag of rows with counts (see `window_bags`): a step adds rows and their negatives, never
edits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.liveliness import settles_with_input
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import Hopping
from anabranch.kernels.columns.grouped import (
    Ints,
    Mask,
    is_first,
    is_identity,
    order_by_id_and_time,
)
from anabranch.kernels.contract.column_names import END, ID, NEW_STOP, START, STOP, TIME, WEND
from anabranch.kernels.contract.kernel import RESTLESS, Arrived, Rest, SortedRun, Stateful, Trace
from anabranch.kernels.contract.routing import BY_ID, EVERYWHERE, Routing
from anabranch.kernels.modules.failures import report_of
from anabranch.kernels.modules.grid_windows import grid_line, grid_plan, horizon_of
from anabranch.kernels.modules.made_windows import (
    ends_settle,
    lines_of,
    matters,
    open_since,
    span_plan,
)
from anabranch.kernels.modules.window_bags import Keep, negative, numbers, sorted_rows
from anabranch.kernels.modules.window_change import Change, TraceLists, change_windows
from anabranch.kernels.modules.window_events import WindowLayout, Windows
from anabranch.kernels.modules.window_planning import Frontier, WindowPlan, until_of
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.identity import Identity
from anabranch.model.time import BEGINNING, FOREVER, Time

EVENTS: Final = "events"
WINDOWS: Final = "windows"
WAITING: Final = "waiting"
ANSWERS: Final = "answers"
STATES: Final = "states"
GROUPS: Final = "groups"
PROGRESS: Final = "progress"
FAILURES: Final = "failures"

_PROGRESS: Final = pa.schema([(ID, pa.uint64()), (TIME, pa.int64())])

Runs = Mapping[str, tuple[SortedRun, ...]]


@final
@dataclass(frozen=True, slots=True)
class ApplyOperatorKernel(Stateful):
    """Windows and user operators, keyed by group.

    A batch changes some windows: those are found without looking at any others. Of these, and of
    those that have ended with it, user operators are asked anew, and what they say is compared with
    what they had said: the difference leaves. A user operator with states is told only what has
    come and left.
    """

    identity: ClassVar[Identity] = Identity(
        "ApplyModuleKernel",
        ("node",),
        form=("route", "columns=layout.sent", "states=layout.states", "by_promise"),
    )

    node: ApplyOperator
    layout: WindowLayout
    by_promise: bool = False
    """Whether windows are shown when the stable point has passed them, and not before.

    Else they are shown as far as rows have come to the shard, rows that were withdrawn among them.
    A replay of the past, in one shard and without what was withdrawn, would show others. For the
    same reason a window waits until its end can no longer move: with the stable point 5 an event
    [5, 6) may still be withdrawn, and the window [4, 5) that it ended would go on.
    """

    @staticmethod
    def of(node: ApplyOperator) -> ApplyOperatorKernel:
        """The kernel of a node."""
        return ApplyOperatorKernel(node, WindowLayout.of(node))

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """That of the node."""
        return self.node.schema

    @property
    def spread(self) -> str:
        """The grouping keys."""
        return ", ".join(name for name, _ in self.node.group_by) or "nothing"

    @property
    def promises_by_state(self) -> bool:
        """A window that is still open holds a promise back."""
        return True

    @property
    def looks_back(self) -> bool:
        """Windows that have ended since are shown."""
        return True

    @property
    def can_be_shared_anew(self) -> bool:
        """Not where long lifetimes reach into windows that shards have begun at different times."""
        return not self._on_grid or self.node.input.properties.only_points

    def replayable(self) -> ApplyOperatorKernel:
        """What it shows follows from the input and the stable point alone."""
        return replace(self, by_promise=True)

    def routing(self, name: str) -> Routing:
        """Everything goes with its group."""
        return EVERYWHERE if name == PROGRESS else BY_ID

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """Groups and arguments, with both hashes."""
        del side
        return self.layout.sent

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """Groups and arguments, with both hashes."""
        del side
        return self.layout.send(self.node, batch)

    def report(self, trace: Trace) -> dict[str, Any]:
        """The windows that user operators failed for in the last step."""
        return report_of(trace.runs.get(FAILURES, ()))

    @property
    def _on_grid(self) -> bool:
        return isinstance(self.node.window, Hopping)

    @property
    def _shows_open(self) -> bool:
        return self.node.open_windows or self.node.timestamps == "time_bound"

    @property
    def _keeps_events(self) -> bool:
        """Whether events are needed again: not if states say it all."""
        operators = [call.operator for call in self.node.calls]
        states = all(operator.incremental and operator.removes for operator in operators)
        again = self.node.errors != "fail" or self.node.sees_ends or self.node.empty
        return again or not states or not self._on_grid

    def _shown_from(self, ends: Ints) -> Ints:
        """How far time has to come for windows with these ends to be shown."""
        return until_of(self.node, ends) if self.by_promise else ends

    @property
    def _ends_settle(self) -> bool:
        return ends_settle(self.node) and not self.by_promise

    def _open_since(self, windows: Sequence[SortedRun], stable: Time) -> int:
        return open_since(self.layout, windows, stable, ends_settle=self._ends_settle)

    def rest(self, trace: Trace) -> Rest:
        """Where it remembers nothing but how far it is; windows may open as time goes by."""
        return Rest(FOREVER) if trace.runs.keys() <= {PROGRESS} else RESTLESS

    def rested(self, trace: Trace, stable: Time) -> Trace:
        """The same, with how far it is by now."""
        nothing = _in_order(no_rows(self.layout.sent))
        runs = {PROGRESS: _progress(self._frontier(trace, nothing, stable))}
        return Trace({} if stable == FOREVER else runs, stable)

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Find the windows that change or have ended, ask the user operators, tell what is new."""
        moves = _in_order(arrived[0])
        runs = trace.runs
        frontier = self._frontier(trace, moves, stable)
        fresh = self._event_rows(moves)
        events = runs.get(EVENTS, ())
        after = (*events, SortedRun(fresh)) if fresh.num_rows else events
        if stable == FOREVER and self._on_grid:
            frontier = replace(frontier, horizon=horizon_of(self.layout, after, trace.stable))
        plan = self._plan(runs, events, after, moves, frontier)
        ready = self._ready(runs, frontier)
        shown = self._shown(plan.changed, frontier, runs)
        change = change_windows(
            self.node,
            self.layout,
            TraceLists(
                answers=runs.get(ANSWERS, ()),
                states=runs.get(STATES, ()),
                waiting=runs.get(WAITING, ()),
                groups=runs.get(GROUPS, ()),
                events=after,
            ),
            frontier,
            plan,
            ready,
            shown,
        )
        return self._next_trace(trace, change, plan, fresh, after, frontier)

    def _frontier(self, trace: Trace, moves: pa.RecordBatch, stable: Time) -> Frontier:
        reached = [
            int(run.rows.column(TIME).to_numpy().max()) for run in trace.runs.get(PROGRESS, ())
        ]
        before = max([int(BEGINNING), *reached])
        largest = BEGINNING
        if not self.by_promise:
            largest = Time(int(numbers(moves, START).max(initial=BEGINNING)))
        seen = max(before, largest, int(stable))
        return Frontier((trace.stable, stable), (before, seen))

    def _event_rows(self, moves: pa.RecordBatch) -> pa.RecordBatch:
        """What moves take away from the events and add to them."""
        start, stop, new_stop = (numbers(moves, name) for name in (START, STOP, NEW_STOP))
        gone, come = np.flatnonzero(stop > start), np.flatnonzero(new_stop > start)
        rows = np.concatenate([gone, come])
        about = moves.select([name for name, _ in self.layout.about])
        if len(gone) or len(come) < moves.num_rows:
            about = about.take(pa.array(rows))
        return self.layout.events.rows(
            numbers(moves, ID)[rows],
            start[rows],
            np.concatenate([stop[gone], new_stop[come]]),
            np.repeat([-1, 1], [len(gone), len(come)]),
            about.columns,
        )

    def _plan(
        self,
        runs: Runs,
        events: Sequence[SortedRun],
        after: Sequence[SortedRun],
        moves: pa.RecordBatch,
        frontier: Frontier,
    ) -> WindowPlan:
        if self._on_grid:
            return grid_plan(self.node, self.layout, after, moves, frontier)
        waiting = self._ready(runs, frontier)
        groups = np.unique(np.concatenate([numbers(moves, ID), numbers(waiting, ID)]))
        line = lines_of(self.layout, runs.get(WINDOWS, ()), groups, frontier.stable[0])
        return span_plan(self.node, self.layout, (events, after), groups, line)

    def _ready(self, runs: Runs, frontier: Frontier) -> pa.RecordBatch:
        """The windows that wait and can be told of now."""
        bag, runs_before = self.layout.windows, runs.get(WAITING, ())
        line = self._settled_line(runs, frontier)

        def is_due(rows: pa.RecordBatch) -> Mask:
            # What was settled before is over, though a run that was not merged since still has it:
            # the row that takes it away may have been dropped for the same reason.
            ends = self._shown_from(numbers(rows, WEND))
            times = numbers(rows, TIME) if self._shows_open else ends
            due = (times <= frontier.seen[1]) | (numbers(rows, TIME) < line)
            settled = np.maximum(ends, numbers(rows, END)) <= frontier.stable[0]
            return np.asarray(due & ~settled)

        rows = bag.where(runs_before, is_due)
        return rows.take(pa.array(np.flatnonzero(numbers(rows, COUNT) > 0)))

    def _shown(self, windows: Windows, frontier: Frontier, runs: Runs) -> Mask:
        """The windows that are shown: those that have ended, or that have begun.

        What is settled of a window stays, also if its end moves away again.
        """
        times = windows.start if self._shows_open else self._shown_from(windows.end)
        shown = np.asarray(times <= frontier.seen[1])
        return shown | (windows.start < self._settled_line(runs, frontier))

    def _settled_line(self, runs: Runs, frontier: Frontier) -> int:
        """What begins before this is settled in part, though its end may still move away."""
        if not self._ends_settle:
            return int(BEGINNING)
        runs_before, before = runs.get(WINDOWS, ()), frontier.stable[0]
        return min(int(before), self._open_since(runs_before, before))

    def _next_trace(
        self,
        trace: Trace,
        change: Change,
        plan: WindowPlan,
        fresh: pa.RecordBatch,
        events: Sequence[SortedRun],
        frontier: Frontier,
    ) -> tuple[Trace, EventBatch]:
        """What is remembered, and how far the output is settled."""
        stable, layout, runs = frontier.stable[1], self.layout, trace.runs
        failures = {FAILURES: (change.failures,)} if change.failures is not None else {}
        if stable == FOREVER:
            return Trace(failures, stable), change.output.with_stable(stable)
        windows, settled = runs.get(WINDOWS, ()), stable
        if self._on_grid:
            line = grid_line(self.node, layout, events, stable)
            settled = Time(min(stable, line))
            alive = self._keep_on_grid(frontier, line)
        else:
            fresh_windows = self._window_rows(runs, plan)
            windows = layout.windows.add(
                windows, fresh_windows, stable, lambda rows: numbers(rows, END) > stable
            )
            settled = Time(min(stable, self._open_since(windows, stable)))
            alive = self._keep_spans(windows, stable)
        if self.node.timestamps == "time_bound" or settles_with_input(self.node):
            settled = stable

        def since(rows: pa.RecordBatch) -> Mask:
            return np.asarray(numbers(rows, END) > stable)

        def waits(rows: pa.RecordBatch) -> Mask:
            return np.asarray(self._shown_from(numbers(rows, WEND)) > stable)

        after = {
            EVENTS: layout.events.add(runs.get(EVENTS, ()), fresh, stable, alive),
            WINDOWS: windows,
            WAITING: layout.windows.add(runs.get(WAITING, ()), change.waiting, stable, waits),
            ANSWERS: layout.answers.add(runs.get(ANSWERS, ()), change.answers, stable, since),
            STATES: layout.state_bag.add(runs.get(STATES, ()), change.states, stable, since),
            GROUPS: layout.groups.add(
                runs.get(GROUPS, ()), change.groups, stable, lambda rows: numbers(rows, COUNT) != 0
            ),
            PROGRESS: _progress(frontier),
            **failures,
        }
        kept = {name: part for name, part in after.items() if part}
        return Trace(kept, stable), change.output.with_stable(settled)

    def _keep_on_grid(self, frontier: Frontier, line: Time) -> Keep:
        """Which events matter: those in windows that may change, or not have begun.

        Where states say it all, events matter to windows that have not begun. If some never end,
        the others also say how far those are looked at in the end.
        """
        since: int = line
        if not self._keeps_events:
            points = self.node.input.properties.only_points
            since = frontier.seen[1] + 1 if points else frontier.stable[1]

        def keep(rows: pa.RecordBatch) -> Mask:
            return np.asarray(numbers(rows, END) > since)

        return keep

    def _keep_spans(self, windows: Sequence[SortedRun], stable: Time) -> Keep:
        """Which events matter: those from the earliest window on that may change, of each group."""
        bag = self.layout.windows
        alive = bag.where(windows, lambda rows: numbers(rows, END) > stable)
        alive = alive.take(pa.array(np.flatnonzero(numbers(alive, COUNT) > 0)))
        order = np.lexsort((numbers(alive, TIME), numbers(alive, ID)))
        order = order[is_first(numbers(alive, ID)[order])]
        groups, earliest = numbers(alive, ID)[order], numbers(alive, TIME)[order]

        def keep(rows: pa.RecordBatch) -> Mask:
            line = np.full(rows.num_rows, stable)
            if len(groups):
                at = np.minimum(np.searchsorted(groups, numbers(rows, ID)), len(groups) - 1)
                listed = groups[at] == numbers(rows, ID)
                line[listed] = np.minimum(line[listed], earliest[at[listed]])
            return matters(self.node, rows, line)

        return keep

    def _window_rows(self, runs: Runs, plan: WindowPlan) -> pa.RecordBatch:
        """What becomes of the list of windows: the groups that were looked at are put in anew."""
        assert plan.now is not None
        assert plan.groups is not None
        before, _ = self.layout.windows.of(runs.get(WINDOWS, ()), plan.groups)
        return sorted_rows(negative(before), plan.now)


def _progress(frontier: Frontier) -> tuple[SortedRun, ...]:
    """How far time has come, as a list of runs."""
    arrays = [pa.array([0], pa.uint64()), pa.array([frontier.seen[1]], pa.int64())]
    return (SortedRun(pa.RecordBatch.from_arrays(arrays, schema=_PROGRESS)),)


def _in_order(moves: pa.RecordBatch) -> pa.RecordBatch:
    """The same by group and start: what follows is then in order, or nearly so."""
    order = order_by_id_and_time(numbers(moves, ID), numbers(moves, START))
    return moves if is_identity(order) else moves.take(pa.array(order))
