"""Ask user operators that get one table of all windows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.results import (
    OperatorCallError,
    Timestamps,
    called,
    settled_times,
)
from anabranch.algebra.modules.user_operator import FRAME_TIMES, WINDOW, UserOperator
from anabranch.kernels.columns.grouped import Ints
from anabranch.kernels.modules.answers import OperatorResults, WindowEvents, compare, rank
from anabranch.model.payload import freeze
from anabranch.model.time import FOREVER


def frame(operator: UserOperator, seen: WindowEvents) -> pa.Table:
    """The events of all windows as one table."""
    owner = np.repeat(np.arange(len(seen)), np.diff(seen.cuts))
    made: dict[str, pa.Array] = {WINDOW: pa.array(owner)}
    made |= {name: column for (name, _), column in zip(operator.takes, seen.columns)}
    if operator.time_sensitive:
        times = (seen.since, seen.until, seen.start[owner], seen.end[owner])
        made |= {name: pa.array(values) for name, values in zip(FRAME_TIMES, times)}
    return pa.table(made)


def ask_frame(
    operator: UserOperator, seen: WindowEvents, timestamps: Timestamps
) -> OperatorResults:
    """What a user operator says of all windows; if that is wrong somewhere, of each by itself."""
    occupied = np.diff(seen.cuts) > 0
    try:
        answers = _frame_answers(operator, seen, timestamps)
        if "deterministic" in operator.properties and occupied.any():
            _compare_frame(operator, seen, timestamps, answers, int(np.flatnonzero(occupied)[0]))
    except OperatorCallError as failure:
        if len(seen) == 1:
            return OperatorResults(*_nothing(operator), {0: failure})
    else:
        return answers
    # Something is wrong somewhere: ask for every window by itself.
    parts = [ask_frame(operator, seen.only(number), timestamps) for number in range(len(seen))]
    return OperatorResults(
        np.concatenate([part.owner + number for number, part in enumerate(parts)]),
        [
            pa.concat_arrays([part.columns[index] for part in parts])
            for index in range(len(operator.gives))
        ],
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.end for part in parts]),
        {number: part.failures[0] for number, part in enumerate(parts) if part.failures},
    )


def _frame_answers(
    operator: UserOperator, seen: WindowEvents, timestamps: Timestamps
) -> OperatorResults:
    given = called(operator, operator.code.compute_frame, frame(operator, seen))
    if not isinstance(given, pa.Table):
        raise OperatorCallError(
            f"{operator.name} returned a {type(given).__name__}, which is not a table"
        )
    needed = [WINDOW, *operator.gives.names, *(("start", "end") if operator.own_times else ())]
    missing = [name for name in needed if given.column_names.count(name) != 1]
    if missing:
        there = ", ".join(given.column_names)
        raise OperatorCallError(
            f"{operator.name} did not return exactly one column '{missing[0]}', but: {there}"
        )
    owner = _column(operator, given, WINDOW, pa.int64()).to_numpy(zero_copy_only=False)
    has_events = np.diff(seen.cuts) > 0
    if len(owner) and (owner.min() < 0 or owner.max() >= len(seen) or not has_events[owner].all()):
        raise OperatorCallError(
            f"{operator.name} returned a result for a window that it was not given"
        )
    columns = [_column(operator, given, each.name, each.type) for each in operator.gives]
    if operator.kind == "uda" and (np.bincount(owner, minlength=len(seen)) != has_events).any():
        raise OperatorCallError(f"{operator.name} did not return one value for every window")
    if operator.own_times and timestamps != "align":
        start, end = (
            _column(operator, given, name, pa.int64()).to_numpy(zero_copy_only=False)
            for name in ("start", "end")
        )
        order = np.argsort(owner, kind="stable")
        owner, start, end = owner[order], start[order], end[order]
        columns = [column.take(pa.array(order)) for column in columns]
        return _timed(operator, seen, timestamps, OperatorResults(owner, columns, start, end))
    if operator.on_empty is not None and not has_events.all():
        none = np.flatnonzero(~has_events)
        owner = np.concatenate([owner, none])
        columns = [
            pa.concat_arrays([column, pa.array([value] * len(none), column.type)])
            for column, value in zip(columns, operator.on_empty)
        ]
    order = np.argsort(owner, kind="stable")
    columns = [column.take(pa.array(order)) for column in columns]
    owner = owner[order]
    return OperatorResults(owner, columns, seen.start[owner], seen.end[owner])


def _timed(
    operator: UserOperator, seen: WindowEvents, timestamps: Timestamps, answers: OperatorResults
) -> OperatorResults:
    """Rows with times of the user operator's own, put into those they shall have."""
    owner, start, end = answers.owner, answers.start, answers.end
    wrong = (start >= end) | (start == FOREVER)
    if timestamps == "clip":
        start, end = np.maximum(start, seen.start[owner]), np.minimum(end, seen.end[owner])
        keep = np.flatnonzero(start < end)
    else:
        wrong |= start < seen.start[owner]
        keep = np.arange(len(owner))
    if wrong.any():
        index = int(np.flatnonzero(wrong)[0])
        window = seen.window(int(owner[index]))
        settled_times(
            operator, int(answers.start[index]), int(answers.end[index]), window, timestamps
        )
    columns = [column.take(pa.array(keep)) for column in answers.columns]
    return OperatorResults(owner[keep], columns, start[keep], end[keep])


def _column(operator: UserOperator, given: pa.Table, name: str, kind: pa.DataType) -> pa.Array:
    """A column of a result, of the type that was declared.

    Raises:
        ModuleCallError: It has another type, that cannot be read as that.
    """
    column = given.column(name).combine_chunks()
    column = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
    if pa.types.is_integer(kind) and pa.types.is_floating(column.type):
        raise OperatorCallError(
            f"{operator.name} returned {column.type} for '{name}', which is not of type {kind}"
        )
    if name in (WINDOW, "start", "end") and column.null_count:
        raise OperatorCallError(f"{operator.name} returned NULL for '{name}'")
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        what = f"{operator.name} returned {column.type} for '{name}', which is not of type {kind}"
        raise OperatorCallError(what) from None


def _compare_frame(
    operator: UserOperator,
    seen: WindowEvents,
    timestamps: Timestamps,
    answers: OperatorResults,
    number: int,
) -> None:
    """A window by itself must get the answer that it gets among others."""
    alone = _frame_answers(operator, seen.only(number), timestamps)
    rows = np.flatnonzero(answers.owner == number)
    among = [column.take(pa.array(rows)).to_pylist() for column in answers.columns]
    again = [column.to_pylist() for column in alone.columns]
    times = (answers.start[rows].tolist(), answers.end[rows].tolist())
    one = sorted(map(freeze, zip(*among, *times)), key=rank)
    two = sorted(map(freeze, zip(*again, alone.start.tolist(), alone.end.tolist())), key=rank)
    compare(operator, one, two)


def _nothing(operator: UserOperator) -> tuple[Ints, list[pa.Array], Ints, Ints]:
    none = np.empty(0, np.int64)
    return none, [pa.array([], each.type) for each in operator.gives], none, none
