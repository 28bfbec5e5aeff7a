"""Ask modules about many windows at once, and check what they say."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.module import FRAME_TIMES, WINDOW, Module, Result, Window
from anabranch.algebra.module_results import (
    ModuleCallError,
    Timestamps,
    called,
    settled_results,
    settled_times,
    typed_rows,
    typed_values,
)
from anabranch.kernels.columns import Ints
from anabranch.model.payload import freeze, show_payload
from anabranch.model.time import FOREVER, format_time


@final
@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What a module sees of some windows: their events, window by window.

    Attributes:
        start: The start of every window.
        end: The end of every window.
        cuts: Where the events of each window begin among all, and where the last ones end.
        columns: The arguments, one value per event.
        since: The starts of the events, as the module sees them.
        until: Their ends.
    """

    start: Ints
    end: Ints
    cuts: Ints
    columns: tuple[pa.Array, ...]
    since: Ints
    until: Ints

    def __len__(self) -> int:
        return len(self.start)

    def window(self, number: int) -> Window:
        """A window, as modules see it."""
        return Window(int(self.start[number]), int(self.end[number]))

    def only(self, number: int) -> Seen:
        """One of the windows."""
        low, high = int(self.cuts[number]), int(self.cuts[number + 1])
        return Seen(
            self.start[number : number + 1],
            self.end[number : number + 1],
            np.array([0, high - low]),
            tuple(column.slice(low, high - low) for column in self.columns),
            self.since[low:high],
            self.until[low:high],
        )

    def event(self, place: int) -> str:
        """An event for people."""
        values = show_payload(column[place].as_py() for column in self.columns)
        since, until = format_time(int(self.since[place])), format_time(int(self.until[place]))
        return f"{values} during [{since}, {until})"


@final
@dataclass(slots=True)
class Answers:
    """What a module says: rows of some windows, or why there are none.

    Attributes:
        owner: The number of the window of each row.
        columns: The values.
        start: The start of each row's lifetime.
        end: Its end.
        failures: By the number of a window, what went wrong there.
    """

    owner: Ints
    columns: list[pa.Array]
    start: Ints
    end: Ints
    failures: dict[int, ModuleCallError] = field(default_factory=dict)


Raw: TypeAlias = "list[Result]"


def ask(module: Module, seen: Seen, timestamps: Timestamps) -> Answers:
    """What a module that keeps no state says of some windows."""
    if not len(seen):
        return _collected(module, [], seen, timestamps)
    if module.frame != "python":
        return _ask_frame(module, seen, timestamps)
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
    module: Module, seen: Seen, answer: Callable[[int], Raw], timestamps: Timestamps
) -> Answers:
    """What a module says, window by window.

    The first answer is asked for twice: a module that does not give the same is found out.
    """

    def once(number: int) -> Raw | ModuleCallError:
        try:
            rows = called(module, answer, number)
            if not number and "deterministic" in module.properties:
                _compare(module, rows, called(module, answer, number))
        except ModuleCallError as failure:
            return failure
        return rows

    return _collected(module, [once(number) for number in range(len(seen))], seen, timestamps)


def _compare(module: Module, one: Sequence[Any], two: Sequence[Any]) -> None:
    """Two answers to one question must be the same.

    Raises:
        ModuleCallError: They are not.
    """
    first, second = freeze(list(one)), freeze(list(two))
    if not _alike(first, second):
        raise ModuleCallError(
            f"{module.name} is not deterministic: for the same events it gave {_short(first)}, "
            f"then {_short(second)}"
        )


def _alike(one: Any, two: Any) -> bool:
    """Whether values are equal; the last digits of floats may depend on the order of a sum."""
    if isinstance(one, tuple) and isinstance(two, tuple):
        return len(one) == len(two) and all(map(_alike, one, two))
    if isinstance(one, float) and isinstance(two, float) and not math.isnan(one):
        return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == two) if type(one) is not float else math.isnan(two)


def _rank(value: Any) -> Any:
    """A key to sort answers by, whatever the last digits of their floats."""
    if isinstance(value, tuple):
        return tuple(map(_rank, value))
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _short(values: Any) -> str:
    text = repr(values)
    return text if len(text) <= 60 else text[:57] + "..."


def _collected(
    module: Module,
    given: Sequence[Raw | ModuleCallError],
    seen: Seen,
    timestamps: Timestamps,
) -> Answers:
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
    seen: Seen,
    timestamps: Timestamps,
    failures: dict[int, ModuleCallError],
) -> Answers:
    if module.kind == "uda" and any(len(results) != 1 for _, results in rows):
        raise ModuleCallError(f"{module.name} does not give one value")
    owner = np.repeat(
        np.array([number for number, _ in rows], np.int64), [len(results) for _, results in rows]
    )
    flat = [result for _, results in rows for result in results]
    values: list[Any] = [value for value, _, _ in flat]
    width = len(module.gives)
    if any(not isinstance(row, tuple) or len(row) != width for row in values):
        typed_rows(module, values)
    columns = [
        typed_values([row[place] for row in values], each.type, f"{module.name} gave")
        for place, each in enumerate(module.gives)
    ]
    start, end = seen.start[owner], seen.end[owner]
    if not module.own_times or timestamps == "align":
        return Answers(owner, columns, start, end, failures)
    times = [
        settled_times(module, since, until, seen.window(int(number)), timestamps)
        for number, (_, since, until) in zip(owner, flat)
    ]
    keep = np.array([place for place, each in enumerate(times) if each is not None], np.int64)
    held = np.array([each for each in times if each is not None], np.int64).reshape(-1, 2)
    kept = [column.take(pa.array(keep)) for column in columns]
    start, end = np.ascontiguousarray(held.T)
    return Answers(owner[keep], kept, start, end, failures)


def frame(module: Module, seen: Seen) -> pa.Table:
    """The events of all windows as one table."""
    owner = np.repeat(np.arange(len(seen)), np.diff(seen.cuts))
    made: dict[str, pa.Array] = {WINDOW: pa.array(owner)}
    made |= {name: column for (name, _), column in zip(module.takes, seen.columns)}
    if module.time_sensitive:
        times = (seen.since, seen.until, seen.start[owner], seen.end[owner])
        made |= {name: pa.array(values) for name, values in zip(FRAME_TIMES, times)}
    return pa.table(made)


def _ask_frame(module: Module, seen: Seen, timestamps: Timestamps) -> Answers:
    some = np.diff(seen.cuts) > 0
    try:
        answers = _frame_answers(module, seen, timestamps)
        if "deterministic" in module.properties and some.any():
            _compare_frame(module, seen, timestamps, answers, int(np.flatnonzero(some)[0]))
    except ModuleCallError as failure:
        if len(seen) == 1:
            return Answers(*_nothing(module), {0: failure})
    else:
        return answers
    # Something is wrong somewhere: ask for every window by itself.
    parts = [_ask_frame(module, seen.only(number), timestamps) for number in range(len(seen))]
    return Answers(
        np.concatenate([part.owner + number for number, part in enumerate(parts)]),
        [
            pa.concat_arrays([part.columns[place] for part in parts])
            for place in range(len(module.gives))
        ],
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.end for part in parts]),
        {number: part.failures[0] for number, part in enumerate(parts) if part.failures},
    )


def _frame_answers(module: Module, seen: Seen, timestamps: Timestamps) -> Answers:
    given = called(module, module.code.compute_frame, frame(module, seen))
    if not isinstance(given, pa.Table):
        raise ModuleCallError(f"{module.name} gave a {type(given).__name__}, which is no table")
    needed = [WINDOW, *module.gives.names, *(("start", "end") if module.own_times else ())]
    missing = [name for name in needed if given.column_names.count(name) != 1]
    if missing:
        there = ", ".join(given.column_names)
        raise ModuleCallError(f"{module.name} gave not one column '{missing[0]}', but: {there}")
    owner = _column(module, given, WINDOW, pa.int64()).to_numpy(zero_copy_only=False)
    has_events = np.diff(seen.cuts) > 0
    if len(owner) and (owner.min() < 0 or owner.max() >= len(seen) or not has_events[owner].all()):
        raise ModuleCallError(f"{module.name} gave a result for a window that was not asked for")
    columns = [_column(module, given, each.name, each.type) for each in module.gives]
    if module.kind == "uda" and (np.bincount(owner, minlength=len(seen)) != has_events).any():
        raise ModuleCallError(f"{module.name} did not give one value for every window")
    if module.own_times and timestamps != "align":
        start, end = (
            _column(module, given, name, pa.int64()).to_numpy(zero_copy_only=False)
            for name in ("start", "end")
        )
        order = np.argsort(owner, kind="stable")
        owner, start, end = owner[order], start[order], end[order]
        columns = [column.take(pa.array(order)) for column in columns]
        return _timed(module, seen, timestamps, Answers(owner, columns, start, end))
    if module.on_empty is not None and not has_events.all():
        none = np.flatnonzero(~has_events)
        owner = np.concatenate([owner, none])
        columns = [
            pa.concat_arrays([column, pa.array([value] * len(none), column.type)])
            for column, value in zip(columns, module.on_empty)
        ]
    order = np.argsort(owner, kind="stable")
    columns = [column.take(pa.array(order)) for column in columns]
    owner = owner[order]
    return Answers(owner, columns, seen.start[owner], seen.end[owner])


def _timed(module: Module, seen: Seen, timestamps: Timestamps, answers: Answers) -> Answers:
    """Rows with times of the module's own, put into those they shall have."""
    owner, start, end = answers.owner, answers.start, answers.end
    wrong = (start >= end) | (start == FOREVER)
    if timestamps == "clip":
        start, end = np.maximum(start, seen.start[owner]), np.minimum(end, seen.end[owner])
        keep = np.flatnonzero(start < end)
    else:
        wrong |= start < seen.start[owner]
        keep = np.arange(len(owner))
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        window = seen.window(int(owner[place]))
        settled_times(
            module, int(answers.start[place]), int(answers.end[place]), window, timestamps
        )
    columns = [column.take(pa.array(keep)) for column in answers.columns]
    return Answers(owner[keep], columns, start[keep], end[keep])


def _column(module: Module, given: pa.Table, name: str, kind: pa.DataType) -> pa.Array:
    """A column of a result, of the type that was declared.

    Raises:
        ModuleCallError: It has another type, that cannot be read as that.
    """
    column = given.column(name).combine_chunks()
    column = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
    if pa.types.is_integer(kind) and pa.types.is_floating(column.type):
        raise ModuleCallError(f"{module.name} gave {column.type} for '{name}', which is no {kind}")
    if name in (WINDOW, "start", "end") and column.null_count:
        raise ModuleCallError(f"{module.name} gave NULL for '{name}'")
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        what = f"{module.name} gave {column.type} for '{name}', which is no {kind}"
        raise ModuleCallError(what) from None


def _compare_frame(
    module: Module, seen: Seen, timestamps: Timestamps, answers: Answers, number: int
) -> None:
    """A window by itself must get the answer that it gets among others."""
    alone = _frame_answers(module, seen.only(number), timestamps)
    rows = np.flatnonzero(answers.owner == number)
    among = [column.take(pa.array(rows)).to_pylist() for column in answers.columns]
    again = [column.to_pylist() for column in alone.columns]
    times = (answers.start[rows].tolist(), answers.end[rows].tolist())
    one = sorted(map(freeze, zip(*among, *times)), key=_rank)
    two = sorted(map(freeze, zip(*again, alone.start.tolist(), alone.end.tolist())), key=_rank)
    _compare(module, one, two)


def _nothing(module: Module) -> tuple[Ints, list[pa.Array], Ints, Ints]:
    none = np.empty(0, np.int64)
    return none, [pa.array([], each.type) for each in module.gives], none, none


def offender(module: Module, seen: Seen, number: int, failure: ModuleCallError) -> str:
    """The first event of a window that seems to be the reason of a failure."""
    low, high = int(seen.cuts[number]), int(seen.cuts[number + 1])
    if low == high:
        return ""
    place = low + failure.event if failure.event is not None else None
    if place is None and failure.__cause__ is not None and high - low <= 1_000:
        place = next(
            (at for at in range(low, high) if _fails_alone(module, seen, number, at)), None
        )
    return seen.event(low if place is None else place)


def _fails_alone(module: Module, seen: Seen, number: int, place: int) -> bool:
    one = Seen(
        seen.start[number : number + 1],
        seen.end[number : number + 1],
        np.array([0, 1]),
        tuple(column.slice(place, 1) for column in seen.columns),
        seen.since[place : place + 1],
        seen.until[place : place + 1],
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
