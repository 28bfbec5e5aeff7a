"""Results of a user operator for a window: checked, and put into columns and times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import pyarrow as pa

from anabranch.algebra.modules.user_operator import Result, Row, UserOperator, Window
from anabranch.model.time import BEGINNING, FOREVER, format_time

Clip: TypeAlias = Literal["none", "left", "right", "full"]
Timestamps: TypeAlias = Literal["align", "unchanged", "clip", "time_bound"]
Errors: TypeAlias = Literal["fail", "skip", "quarantine"]

T = TypeVar("T")

Timed: TypeAlias = tuple[Row, int, int]


class OperatorCallError(Exception):
    """A user operator did what it must not do, for one window.

    `event` is the number of the event that seems to be the reason.
    """

    def __init__(self, reason: str, event: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.event = event


def called(operator: UserOperator, call: Callable[..., T], *given: Any) -> T:
    """What a user operator answers; whatever it raises becomes a failure.

    Raises:
        ModuleCallError: It raised something.
    """
    try:
        return call(*given)
    except OperatorCallError:
        raise
    except (Exception, SystemExit) as problem:
        what = type(problem).__name__
        message = str(problem).strip().split("\n")[0]
        raise OperatorCallError(
            f"{operator.name} raised {what}" + (f": {message}" if message else "")
        ) from problem


def settled_results(
    operator: UserOperator, given: Iterable[Result], window: Window, timestamps: Timestamps
) -> list[Timed]:
    """The results of a window with the lifetimes they shall have.

    Raises:
        ModuleCallError: A value has the wrong type, or a lifetime is impossible.
    """
    results: list[Result] = called(operator, list, given)
    for each in results:
        if called(operator, len, each) != 3:
            raise OperatorCallError(f"{operator.name} returned {each!r}, which is not a result")
    rows = typed_rows(operator, [values for values, _, _ in results])
    if not operator.own_times or timestamps == "align":
        return [(values, window.start, window.end) for values in rows]
    found: list[Timed] = []
    for values, (_, start, end) in zip(rows, results):
        timed = settled_times(operator, start, end, window, timestamps)
        if timed is not None:
            found.append((values, *timed))
    return found


def settled_times(
    operator: UserOperator, start: Any, end: Any, window: Window, timestamps: Timestamps
) -> tuple[int, int] | None:
    """The lifetime that a result shall have; None where nothing is left of it.

    Raises:
        ModuleCallError: It is no lifetime, or begins before the window.
    """
    for time in (start, end):
        if not isinstance(time, int) or isinstance(time, bool) or not BEGINNING <= time <= FOREVER:
            raise OperatorCallError(f"{operator.name} returned an event with the time {time!r}")
    if start >= end or start == FOREVER:
        raise OperatorCallError(
            f"{operator.name} returned an event that ends at {format_time(end)}, "
            f"not after its start {format_time(start)}"
        )
    if timestamps == "clip":
        start, end = max(start, window.start), min(end, window.end)
        return (start, end) if start < end else None
    if start < window.start:
        raise OperatorCallError(
            f"{operator.name} returned an event from {format_time(start)} on, before its window"
        )
    return start, end


def typed_rows(operator: UserOperator, rows: Sequence[Any]) -> list[Row]:
    """The values as columns of the declared types have them.

    Raises:
        ModuleCallError: A row has the wrong number of values, or one has another type.
    """
    width = len(operator.gives)
    for row in rows:
        if not isinstance(row, tuple) or len(row) != width:
            raise OperatorCallError(
                f"{operator.name} returned {row!r}, which is not {width} values"
            )
    if operator.kind == "uda" and len(rows) != 1:
        raise OperatorCallError(f"{operator.name} returned {len(rows)} values for one window")
    columns = [
        typed_values([row[index] for row in rows], each.type, f"{operator.name} returned")
        for index, each in enumerate(operator.gives)
    ]
    return list(zip(*(column.to_pylist() for column in columns))) if rows else []


def typed_values(values: list[Any], kind: pa.DataType, who: str) -> pa.Array:
    """Values as an array of a type.

    Raises:
        ModuleCallError: One of them is of another type.
    """
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    for value in values:
        # Arrow would take True for 1, and cut what is behind the point of a number.
        wrong = numbers and isinstance(value, bool)
        wrong |= pa.types.is_integer(kind) and isinstance(value, float)
        if wrong:
            raise OperatorCallError(f"{who} {value!r}, which is not of type {kind}")
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        wrong_one = next((value for value in values if not _fits(value, kind)), values)
        raise OperatorCallError(f"{who} {wrong_one!r}, which is not of type {kind}") from None


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return False
    return True


def clipped(start: int, end: int, window: Window, clip: Clip) -> tuple[int, int]:
    """A lifetime as a user operator sees it."""
    if clip in ("left", "full"):
        start = max(start, window.start)
    if clip in ("right", "full"):
        end = min(end, window.end)
    return start, end
