"""Ask modules about many windows at once, and check what they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.module import Module, Result, Window
from anabranch.algebra.modules.results import (
    ModuleCallError,
    Timestamps,
    called,
    settled_results,
    settled_times,
    typed_rows,
    typed_values,
)
from anabranch.kernels.modules.answers import OperatorResults, WindowEvents, compare
from anabranch.kernels.modules.frames import ask_frame, frame

Raw: TypeAlias = "list[Result]"


def ask(module: Module, seen: WindowEvents, timestamps: Timestamps) -> OperatorResults:
    """What a module that keeps no state says of some windows."""
    if not len(seen):
        return _collected(module, [], seen, timestamps)
    if module.frame != "python":
        return ask_frame(module, seen, timestamps)
    # Lists in lists are made anew for every call: modules may change what they get.
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
        return list(module.code.compute(columns, times, seen.window(number)))

    return answers_of(module, seen, answer, timestamps)


def answers_of(
    module: Module, seen: WindowEvents, answer: Callable[[int], Raw], timestamps: Timestamps
) -> OperatorResults:
    """What a module says, window by window.

    The first answer is asked for twice: a module that does not give the same is found out.
    """

    def once(number: int) -> Raw | ModuleCallError:
        try:
            rows = called(module, answer, number)
            if not number and "deterministic" in module.properties:
                compare(module, rows, called(module, answer, number))
        except ModuleCallError as failure:
            return failure
        return rows

    return _collected(module, [once(number) for number in range(len(seen))], seen, timestamps)


def _collected(
    module: Module,
    given: Sequence[Raw | ModuleCallError],
    seen: WindowEvents,
    timestamps: Timestamps,
) -> OperatorResults:
    """All answers as columns; types are checked for all windows at once, if they are right."""
    failures = {number: each for number, each in enumerate(given) if isinstance(each, Exception)}
    rows = [(number, each) for number, each in enumerate(given) if not isinstance(each, Exception)]
    try:
        return _at_once(module, rows, seen, timestamps, failures)
    except (ModuleCallError, TypeError, ValueError):
        pass
    # One by one, so that only those have no result that are wrong.
    settled = [
        (number, _settled(module, results, seen.window(number), timestamps))
        for number, results in rows
    ]
    failures |= {number: each for number, each in settled if isinstance(each, Exception)}
    right = [(number, each) for number, each in settled if not isinstance(each, Exception)]
    return _at_once(module, right, seen, timestamps, failures)


def _settled(
    module: Module, results: Raw, window: Window, timestamps: Timestamps
) -> Raw | ModuleCallError:
    try:
        return [*settled_results(module, results, window, timestamps)]
    except ModuleCallError as failure:
        return failure


def _at_once(
    module: Module,
    rows: Sequence[tuple[int, Raw]],
    seen: WindowEvents,
    timestamps: Timestamps,
    failures: dict[int, ModuleCallError],
) -> OperatorResults:
    if module.kind == "uda" and any(len(results) != 1 for _, results in rows):
        raise ModuleCallError(f"{module.name} does not return one value")
    owner = np.repeat(
        np.array([number for number, _ in rows], np.int64), [len(results) for _, results in rows]
    )
    flat = [result for _, results in rows for result in results]
    values: list[Any] = [value for value, _, _ in flat]
    width = len(module.gives)
    if any(not isinstance(row, tuple) or len(row) != width for row in values):
        typed_rows(module, values)
    columns = [
        typed_values([row[index] for row in values], each.type, f"{module.name} returned")
        for index, each in enumerate(module.gives)
    ]
    start, end = seen.start[owner], seen.end[owner]
    if not module.own_times or timestamps == "align":
        return OperatorResults(owner, columns, start, end, failures)
    times = [
        settled_times(module, since, until, seen.window(int(number)), timestamps)
        for number, (_, since, until) in zip(owner, flat)
    ]
    keep = np.array([index for index, each in enumerate(times) if each is not None], np.int64)
    held = np.array([each for each in times if each is not None], np.int64).reshape(-1, 2)
    kept = [column.take(pa.array(keep)) for column in columns]
    start, end = np.ascontiguousarray(held.T)
    return OperatorResults(owner[keep], kept, start, end, failures)


def offender(module: Module, seen: WindowEvents, number: int, failure: ModuleCallError) -> str:
    """The first event of a window that seems to be the reason of a failure."""
    low, high = int(seen.cuts[number]), int(seen.cuts[number + 1])
    if low == high:
        return ""
    index = low + failure.event if failure.event is not None else None
    if index is None and failure.__cause__ is not None and high - low <= 1_000:
        index = next(
            (at for at in range(low, high) if _fails_alone(module, seen, number, at)), None
        )
    return seen.event(low if index is None else index)


def _fails_alone(module: Module, seen: WindowEvents, number: int, index: int) -> bool:
    one = WindowEvents(
        seen.start[number : number + 1],
        seen.end[number : number + 1],
        np.array([0, 1]),
        tuple(column.slice(index, 1) for column in seen.columns),
        seen.since[index : index + 1],
        seen.until[index : index + 1],
    )
    try:
        if module.incremental:
            state = called(module, module.code.initial)
            values = tuple(column[0].as_py() for column in one.columns)
            since, until = int(one.since[0]), int(one.until[0])
            called(module, module.code.add, state, values, since, until)
        elif module.frame == "python":
            columns = [column.to_pylist() for column in one.columns]
            times = (one.since.tolist(), one.until.tolist())
            called(module, lambda: list(module.code.compute(columns, times, one.window(0))))
        else:
            called(module, module.code.compute_frame, frame(module, one))
    except ModuleCallError:
        return True
    return False
