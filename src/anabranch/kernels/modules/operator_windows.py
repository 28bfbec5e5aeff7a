"""Results of user operators for windows, as rows; and the states of incremental ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.apply_operator import ApplyOperator, Call
from anabranch.algebra.modules.results import OperatorCallError, called
from anabranch.algebra.modules.user_operator import UserOperator
from anabranch.errors import OperatorError
from anabranch.kernels.columns.grouped import Ints
from anabranch.kernels.modules.answers import OperatorResults, WindowEvents
from anabranch.kernels.modules.calls import answers_of, ask, offender
from anabranch.kernels.modules.state import decode_state, encode_state, version_of
from anabranch.kernels.modules.window_events import WindowLayout, WindowMembers, Windows, seen_by


@final
@dataclass(frozen=True, slots=True)
class Failure:
    """A user operator failed for a window: the report of it."""

    operator: str
    reason: str
    event: str
    cause: BaseException | None = field(repr=False, default=None)


@final
@dataclass(slots=True)
class ResultRows:
    """Result rows of windows: those of one operator, or one per window with all aggregates.

    `owner` is the window of each row; `columns` are the values of all calls; `failures` are
    windows that have no rows for a reason.
    """

    owner: Ints
    columns: list[pa.Array]
    start: Ints
    end: Ints
    failures: dict[int, Failure]


@final
@dataclass(frozen=True, slots=True, eq=False)
class States:
    """The states of windows as bytes: per call one for each window; None where there is none."""

    each: tuple[list[bytes | None], ...]

    @staticmethod
    def none(calls: int, windows: int) -> States:
        """No states yet."""
        return States(tuple([None] * windows for _ in range(calls)))


def ask_all(
    node: ApplyOperator,
    layout: WindowLayout,
    windows: Windows,
    members: WindowMembers | None,
    states: States,
    failed: frozenset[int],
) -> ResultRows:
    """The results of all user operators of a node for windows that have events.

    Args:
        node: The node.
        layout: Its layout.
        windows: The windows.
        members: Their events; only user operators without states need them.
        states: What user operators with states keep of these windows.
        failed: Windows for which a state could not be made: they have no results.
    """
    failures: dict[int, Failure] = {}
    every: list[OperatorResults] = []
    kept = iter(states.each)
    for number, call in enumerate(node.calls):
        if call.operator.incremental:
            answers, seen = _finish(node, call, windows, next(kept), failed), None
        else:
            assert members is not None
            seen = seen_by(
                call, layout.argument_indexes[number], members, windows, layout.value_names
            )
            answers = ask(call.operator, seen, node.timestamps)
        for window, failure in answers.failures.items():
            if window not in failures and window not in failed:
                event = "" if seen is None else offender(call.operator, seen, window, failure)
                failures[window] = failure_of(call.operator, failure, event)
        every.append(answers)
    if len(every) == 1:
        (only,) = every
        return ResultRows(only.owner, only.columns, only.start, only.end, failures)
    # Aggregates: a window has all its values, or none.
    wrong = {*failed, *failures}
    right = np.array([window for window in range(len(windows)) if window not in wrong], np.int64)
    columns = []
    for answers in every:
        where = pa.array(np.searchsorted(answers.owner, right))
        columns += [column.take(where) for column in answers.columns]
    return ResultRows(right, columns, windows.start[right], windows.end[right], failures)


def failure_of(operator: UserOperator, problem: OperatorCallError, event: str) -> Failure:
    """The report of a user operator that failed."""
    return Failure(operator.name, problem.reason, event, problem.__cause__)


def _finish(
    node: ApplyOperator,
    call: Call,
    windows: Windows,
    states: Sequence[bytes | None],
    failed: frozenset[int],
) -> OperatorResults:
    """The results of windows from their states; those that failed have none."""
    operator = call.operator
    right = np.array([index for index in range(len(windows)) if index not in failed], np.int64)
    asked = windows.take(right)
    none = np.empty(0, np.int64)
    seen = WindowEvents(asked.start, asked.end, np.zeros(len(asked) + 1, np.int64), (), none, none)

    for data in states:
        if data is not None:
            check_version(operator, data)

    def answer(number: int) -> Any:
        state = read_state(operator, states[int(right[number])])
        return list(operator.code.finish(state, seen.window(number)))

    found = answers_of(operator, seen, answer, node.timestamps)
    problems = {int(right[index]): problem for index, problem in found.failures.items()}
    return OperatorResults(right[found.owner], found.columns, found.start, found.end, problems)


def read_state(operator: UserOperator, data: bytes | None) -> Any:
    """A state as this version of its user operator has it.

    Raises:
        OperatorError: An earlier version left it, and the user operator cannot read that.
    """
    if data is None:
        # A copy: user operators may give out the same object every time, and change it.
        return decode_state(written_state(operator, called(operator, operator.code.initial)))[0]
    check_version(operator, data)
    state, version = decode_state(data)
    return (
        state
        if version == operator.version
        else called(operator, operator.code.migrate, state, version)
    )


def check_version(operator: UserOperator, data: bytes) -> None:
    """Refuse a state that this version of its user operator cannot read.

    Raises:
        OperatorError: An earlier version left it, and the user operator cannot read that.
    """
    version = version_of(data)
    if version > operator.version or (version < operator.version and not operator.code.can_migrate):
        raise OperatorError(
            f"{operator.name} stored a state of version {version} and is now version "
            f"{operator.version}",
            where="the checkpoint of this query",
            hint="give the module a method migrate(self, state, version), or start the query again "
            "with a new checkpoint",
        )


def written_state(operator: UserOperator, state: Any) -> bytes:
    """A state of this version of its user operator as bytes.

    Raises:
        OperatorCallError: It is none that can be stored.
    """
    try:
        return encode_state(state, operator.version)
    except (TypeError, ValueError, RecursionError) as problem:
        raise OperatorCallError(
            f"{operator.name} has a state that cannot be stored: {problem}; use numbers, strings, "
            f"lists, "
            "tuples, dicts and sets"
        ) from None


def advance(
    node: ApplyOperator, layout: WindowLayout, windows: Windows, before: States, more: WindowMembers
) -> tuple[States, dict[int, Failure]]:
    """The states of windows after events came and left.

    Args:
        node: The node.
        layout: Its layout.
        windows: The windows; owners of `more` are indexes into them.
        before: The states before; None begins anew.
        more: What came (a count above 0) and left (below).
    """
    failures: dict[int, Failure] = {}
    after: list[list[bytes | None]] = []
    order = np.lexsort((-more.count, more.begin, more.owner))
    cuts = np.searchsorted(more.owner[order], np.arange(len(windows) + 1))
    given = iter(before.each)
    for number, call in enumerate(node.calls):
        if not call.operator.incremental:
            continue
        names = [layout.value_names[index] for index in layout.argument_indexes[number]]
        where = pa.array(more.row[order])
        until = more.until if call.operator.time_sensitive else more.stop
        moves = _Moves(
            [more.rows.column(name).take(where).to_pylist() for name in names],
            more.count[order].tolist(),
            more.since[order].tolist(),
            until[order].tolist(),
        )
        states = list(next(given))
        for window in range(len(windows)):
            part = moves.part(int(cuts[window]), int(cuts[window + 1]))
            states[window], problem = _moved(call.operator, states[window], part)
            if problem is not None and window not in failures:
                event = part.event(problem.event) if problem.event is not None else ""
                failures[window] = failure_of(call.operator, problem, event)
        after.append(states)
    for window in failures:
        for states in after:
            states[window] = None
    return States(tuple(after)), failures


@final
@dataclass(frozen=True, slots=True)
class _Moves:
    """Events that came (a count above 0) and left (below), column by column."""

    columns: list[list[Any]]
    count: list[int]
    since: list[int]
    until: list[int]

    def part(self, low: int, high: int) -> _Moves:
        """Those from one position up to another."""
        return _Moves(
            [column[low:high] for column in self.columns],
            self.count[low:high],
            self.since[low:high],
            self.until[low:high],
        )

    def values(self, index: int) -> tuple[Any, ...]:
        """The values of an event."""
        return tuple(column[index] for column in self.columns)

    @property
    def only_come(self) -> bool:
        """Whether no event left, nor is there twice."""
        return self.count.count(1) == len(self.count)

    def event(self, index: int) -> str:
        """An event, to be shown."""
        shown = ", ".join(map(repr, self.values(index)))
        return f"({shown}) during [{self.since[index]}, {self.until[index]})"


def _moved(
    operator: UserOperator, data: bytes | None, moves: _Moves
) -> tuple[bytes | None, OperatorCallError | None]:
    """The state of one window with what came and left, or why there is none."""
    if moves.only_come:
        try:
            state = read_state(operator, data)
            many = (moves.columns, moves.since, moves.until)
            state = called(operator, operator.code.add_all, state, *many)
            return written_state(operator, state), None
        except OperatorCallError:
            pass  # One by one, to know which event is the reason.
    done = 0
    try:
        state = read_state(operator, data)
        for done, count in enumerate(moves.count):
            change = operator.code.add if count > 0 else operator.code.remove
            given = (moves.values(done), moves.since[done], moves.until[done])
            for _ in range(abs(count)):
                state = called(operator, change, state, *given)
        done = len(moves.count)
        return written_state(operator, state), None
    except OperatorCallError as problem:
        problem.event = done if done < len(moves.count) else None
        return None, problem
