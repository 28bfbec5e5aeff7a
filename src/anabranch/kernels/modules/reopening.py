"""Go on with the state of user operators by other code: states converted, all open windows told.

What was told by the old code stays with whoever got it. The new code tells its own answers from the
beginning of the first step on, of all windows that may still change; whoever puts both together
cuts them at one instant. Windows that are settled are not in the state any more: their answers are
over at the stable point of the state.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.axis_window import Hopping
from anabranch.algebra.modules.results import OperatorCallError
from anabranch.algebra.modules.user_operator import UserOperator
from anabranch.errors import OperatorError
from anabranch.kernels.columns.grouped import Ints
from anabranch.kernels.contract.column_names import END, ID, MEMBERS, TIME, WEND
from anabranch.kernels.contract.kernel import SortedRun, Trace
from anabranch.kernels.contract.keys import ids_and_checks
from anabranch.kernels.modules.apply_operator import (
    ANSWERS,
    EVENTS,
    FAILURES,
    PROGRESS,
    STATES,
    WAITING,
    WINDOWS,
    ApplyOperatorKernel,
)
from anabranch.kernels.modules.axis_grid import windows_over
from anabranch.kernels.modules.grid_windows import grid_plan
from anabranch.kernels.modules.operator_windows import read_state, written_state
from anabranch.kernels.modules.window_bags import numbers
from anabranch.kernels.modules.window_events import Windows
from anabranch.kernels.modules.window_planning import Frontier, seen_until
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import no_rows
from anabranch.model.time import BEGINNING, FOREVER


def unreopenable(kernel: ApplyOperatorKernel) -> str | None:
    """Why the state of an operator cannot be taken over by other code; None where it can."""
    node = kernel.node
    name = node.calls[0].operator.name
    if node.timestamps not in ("align", "clip"):
        return f"results of '{name}' may hold for longer than their windows"
    return None


def reopened(kernel: ApplyOperatorKernel, trace: Trace) -> Trace:
    """The state for other code of the same operators, as if nothing had been told yet.

    Args:
        kernel: The kernel with the new code.
        trace: What the old code has left.

    Raises:
        OperatorError: The new version cannot read the states.
    """
    if trace.stable == FOREVER:
        return trace
    runs = {
        name: each for name, each in trace.runs.items() if name not in (ANSWERS, FAILURES, STATES)
    }
    states = _converted(kernel, trace)
    if states is not None:
        runs[STATES] = (SortedRun(states),)
    waiting = _waiting(kernel, trace, states)
    if waiting.num_rows:
        runs[WAITING] = (SortedRun(waiting),)
    return Trace({name: each for name, each in runs.items() if each}, trace.stable)


def _converted(kernel: ApplyOperatorKernel, trace: Trace) -> pa.RecordBatch | None:
    """The states of all windows that may still change, as the new version has them."""
    layout, runs = kernel.layout, trace.runs.get(STATES, ())
    if not runs:
        return None
    bag = layout.state_bag
    rows = bag.where(runs, lambda rows: numbers(rows, END) > trace.stable)
    rows = rows.take(pa.array(np.flatnonzero(numbers(rows, COUNT) > 0)))
    operators = [call.operator for call in kernel.node.calls if call.operator.incremental]
    blobs = [
        pa.array(
            [_state(each, data) for data in rows.column(f"state{number}").to_pylist()], pa.binary()
        )
        for number, each in enumerate(operators)
    ]
    row, check = ids_and_checks(blobs, rows.num_rows)
    values = [rows.column(name) for name in (WEND, MEMBERS)]
    values += [pa.array(row), pa.array(check), *(rows.column(name) for name in layout.key_names)]
    ids, times, ends, counts = (numbers(rows, name) for name in (ID, TIME, END, COUNT))
    return bag.rows(ids, times, ends, counts, [*values, *blobs])


def _state(operator: UserOperator, data: bytes | None) -> bytes:
    if data is None:
        raise OperatorError(
            f"{operator.name} failed for a window that is still open, so it has no state",
            where="the checkpoint of this query",
            hint="wait until the window is over, or change by replay (--how replay)",
        )
    try:
        return written_state(operator, read_state(operator, data))
    except OperatorCallError as problem:
        raise OperatorError(
            f"{operator.name}.migrate failed: {problem.reason}",
            where=f"a state of an earlier version, read by version {operator.version}",
            hint="the query runs on as it was: correct the method, and ask for the change again",
        ) from problem


def _waiting(
    kernel: ApplyOperatorKernel, trace: Trace, states: pa.RecordBatch | None
) -> pa.RecordBatch:
    """All windows that may still change as windows that wait to be told."""
    bag, stable = kernel.layout.windows, trace.stable
    there = bag.where(trace.runs.get(WAITING, ()), lambda rows: numbers(rows, END) > stable)
    there = there.take(pa.array(np.flatnonzero(numbers(there, COUNT) > 0)))
    known = _windows(there)[0]
    windows, until = _open_windows(kernel, trace, states)
    fresh = np.flatnonzero(
        (known.find(windows.ids, windows.start, windows.end) < 0) & (until > stable)
    )
    more, until = windows.take(fresh), until[fresh]
    return bag.rows(
        np.concatenate([numbers(there, ID), more.ids]),
        np.concatenate([numbers(there, TIME), more.start]),
        np.concatenate([numbers(there, END), until]),
        np.ones(there.num_rows + len(more), np.int64),
        [pa.array(np.concatenate([numbers(there, WEND), more.end]))],
    )


def _open_windows(
    kernel: ApplyOperatorKernel, trace: Trace, states: pa.RecordBatch | None
) -> tuple[Windows, Ints]:
    """The windows that have events, and from when on nothing of each can change any more."""
    node, layout = kernel.node, kernel.layout
    if layout.states:
        return _windows(no_rows(layout.state_bag.schema) if states is None else states)
    if not isinstance(node.window, Hopping):
        rows = layout.windows.where(
            trace.runs.get(WINDOWS, ()), lambda rows: numbers(rows, END) > trace.stable
        )
        return _windows(rows.take(pa.array(np.flatnonzero(numbers(rows, COUNT) > 0))))
    events = trace.runs.get(EVENTS, ())
    rows = layout.events.where(events, lambda rows: numbers(rows, END) > BEGINNING)
    reached = [int(numbers(run.rows, TIME).max()) for run in trace.runs.get(PROGRESS, ())]
    seen = max([int(trace.stable), *reached])
    begun = np.full(rows.num_rows, min(seen + 1, int(FOREVER)))
    start, stop = numbers(rows, TIME), numbers(rows, END)
    if node.input.properties.only_points:
        begun = np.full(rows.num_rows, int(FOREVER))
    owner, begins, ends = windows_over(node.window, start, stop, before=begun)
    windows, _ = Windows.of(numbers(rows, ID)[owner], begins, ends)
    frontier = Frontier((trace.stable, trace.stable), (seen, seen))
    plan = grid_plan(node, layout, events, no_rows(layout.sent), frontier)
    return windows, seen_until(node, windows, plan.members(windows))


def _windows(rows: pa.RecordBatch) -> tuple[Windows, Ints]:
    """Rows about windows: the windows in order, and the end of each row."""
    ids, start, end = (numbers(rows, name) for name in (ID, TIME, WEND))
    windows, number = Windows.of(ids, start, end)
    until = np.zeros(len(windows), np.int64)
    until[number] = numbers(rows, END)
    return windows, until
