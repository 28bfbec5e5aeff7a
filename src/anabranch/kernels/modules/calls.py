"""Call user operators for many windows at once, and check their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.results import (
    OperatorCallError,
    Timestamps,
    called,
    settled_results,
    settled_times,
    typed_rows,
    typed_values,
)
from anabranch.algebra.modules.user_operator import Result, UserOperator, Window
from anabranch.kernels.modules.answers import OperatorResults, WindowEvents, compare
from anabranch.kernels.modules.frames import ask_frame, frame

Raw: TypeAlias = "list[Result]"


def ask(operator: UserOperator, seen: WindowEvents, timestamps: Timestamps) -> OperatorResults:
    """What a user operator that keeps no state says of some windows."""
    if not len(seen):
        return _collected(operator, [], seen, timestamps)
    if operator.frame != "python":
        return ask_frame(operator, seen, timestamps)
    # Lists in lists are made anew for every call: user operators may change what they get.
    flat = [not pa.types.is_nested(column.type) for column in seen.columns]
    lists = [column.to_pylist() if once else [] for column, once in zip(seen.columns, flat)]
    since, until, cuts = seen.since.tolist(), seen.until.tolist(), seen.cuts.tolist()

    def answer(number: int) -> Raw:
        low, high = cuts[number], cuts[number + 1]
        columns = [
            values[low:high] if once else column.slice(low, high - low).to_pylist()
            for values, column, once in zip(lists, seen.columns, flat)
        ]
        times = (since[low:high], until[low:high])
        return list(operator.code.compute(columns, times, seen.window(number)))

    return answers_of(operator, seen, answer, timestamps)


def answers_of(
    operator: UserOperator, seen: WindowEvents, answer: Callable[[int], Raw], timestamps: Timestamps
) -> OperatorResults:
    """What a user operator says, window by window.

    The first answer is asked for twice: a user operator that does not give the same is found out.
    """

    def once(number: int) -> Raw | OperatorCallError:
        try:
            rows = called(operator, answer, number)
            if not number and "deterministic" in operator.properties:
                compare(operator, rows, called(operator, answer, number))
        except OperatorCallError as failure:
            return failure
        return rows

    return _collected(operator, [once(number) for number in range(len(seen))], seen, timestamps)


def _collected(
    operator: UserOperator,
    given: Sequence[Raw | OperatorCallError],
    seen: WindowEvents,
    timestamps: Timestamps,
) -> OperatorResults:
    """All answers as columns; types are checked for all windows at once, if they are right."""
    failures = {number: each for number, each in enumerate(given) if isinstance(each, Exception)}
    rows = [(number, each) for number, each in enumerate(given) if not isinstance(each, Exception)]
    try:
        return _at_once(operator, rows, seen, timestamps, failures)
    except (OperatorCallError, TypeError, ValueError):
        pass
    # One by one, so that only those have no result that are wrong.
    settled = [
        (number, _settled(operator, results, seen.window(number), timestamps))
        for number, results in rows
    ]
    failures |= {number: each for number, each in settled if isinstance(each, Exception)}
    right = [(number, each) for number, each in settled if not isinstance(each, Exception)]
    return _at_once(operator, right, seen, timestamps, failures)


def _settled(
    operator: UserOperator, results: Raw, window: Window, timestamps: Timestamps
) -> Raw | OperatorCallError:
    try:
        return [*settled_results(operator, results, window, timestamps)]
    except OperatorCallError as failure:
        return failure


def _at_once(
    operator: UserOperator,
    rows: Sequence[tuple[int, Raw]],
    seen: WindowEvents,
    timestamps: Timestamps,
    failures: dict[int, OperatorCallError],
) -> OperatorResults:
    if operator.kind == "uda" and any(len(results) != 1 for _, results in rows):
        raise OperatorCallError(f"{operator.name} does not return one value")
    owner = np.repeat(
        np.array([number for number, _ in rows], np.int64), [len(results) for _, results in rows]
    )
    flat = [result for _, results in rows for result in results]
    values: list[Any] = [value for value, _, _ in flat]
    width = len(operator.gives)
    if any(not isinstance(row, tuple) or len(row) != width for row in values):
        typed_rows(operator, values)
    columns = [
        typed_values([row[index] for row in values], each.type, f"{operator.name} returned")
        for index, each in enumerate(operator.gives)
    ]
    start, end = seen.start[owner], seen.end[owner]
    if not operator.own_times or timestamps == "align":
        return OperatorResults(owner, columns, start, end, failures)
    times = [
        settled_times(operator, since, until, seen.window(int(number)), timestamps)
        for number, (_, since, until) in zip(owner, flat)
    ]
    keep = np.array([index for index, each in enumerate(times) if each is not None], np.int64)
    held = np.array([each for each in times if each is not None], np.int64).reshape(-1, 2)
    kept = [column.take(pa.array(keep)) for column in columns]
    start, end = np.ascontiguousarray(held.T)
    return OperatorResults(owner[keep], kept, start, end, failures)


def offender(
    operator: UserOperator, seen: WindowEvents, number: int, failure: OperatorCallError
) -> str:
    """The first event of a window that seems to be the reason of a failure."""
    low, high = int(seen.cuts[number]), int(seen.cuts[number + 1])
    if low == high:
        return ""
    index = low + failure.event if failure.event is not None else None
    if index is None and failure.__cause__ is not None and high - low <= 1_000:
        index = next(
            (at for at in range(low, high) if _fails_alone(operator, seen, number, at)), None
        )
    return seen.event(low if index is None else index)


def _fails_alone(operator: UserOperator, seen: WindowEvents, number: int, index: int) -> bool:
    one = WindowEvents(
        seen.start[number : number + 1],
        seen.end[number : number + 1],
        np.array([0, 1]),
        tuple(column.slice(index, 1) for column in seen.columns),
        seen.since[index : index + 1],
        seen.until[index : index + 1],
    )
    try:
        if operator.incremental:
            state = called(operator, operator.code.initial)
            values = tuple(column[0].as_py() for column in one.columns)
            since, until = int(one.since[0]), int(one.until[0])
            called(operator, operator.code.add, state, values, since, until)
        elif operator.frame == "python":
            columns = [column.to_pylist() for column in one.columns]
            times = (one.since.tolist(), one.until.tolist())
            called(operator, lambda: list(operator.code.compute(columns, times, one.window(0))))
        else:
            called(operator, operator.code.compute_frame, frame(operator, one))
    except OperatorCallError:
        return True
    return False
