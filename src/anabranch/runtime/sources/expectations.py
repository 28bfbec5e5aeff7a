"""What owners of a stream expect of it: how many rows come, and how many values columns have.

The optimizer prices plans by it. It is no promise: if it is wrong, a plan is slower, never false.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from anabranch.errors import PlanError, QueryError
from anabranch.model.clock import Clock, read_span
from anabranch.runtime.option import UnfitError, ValueKind

SECOND: Final = 1_000_000
"""In microseconds: what a rate without a unit counts, where the length of a chronon is known."""

_RATE: Final = re.compile(
    r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*(?:(?:per\b|/)\s*([0-9.]*\s*[a-zA-Z]+)\s*)?"
)


def rate_per_chronon(rate: Any, clock: Clock, *, where: str) -> float:
    """How many rows per chronon a rate is: a number per second, or `"600 per minute"`.

    Where a chronon has no length, a number counts rows per chronon.

    >>> rate_per_chronon("600 per minute", Clock(1_000_000), where="a doctest")
    10.0
    >>> rate_per_chronon(10, Clock(), where="a doctest")
    10.0

    Raises:
        PlanError: It has a unit of time, and a chronon has no length.
    """
    rows, microseconds = _read(rate)
    if clock.chronon is None:
        if microseconds is not None:
            raise PlanError(
                f"the rate '{rate}' has a unit of time, and nobody has said how long a chronon is",
                where=where,
                hint="declare it: CHRONON 1 SECOND in SQL, chronon='1 second' in Python; or count "
                "rows per chronon, without a unit",
            )
        return rows
    return rows * clock.chronon / (microseconds or SECOND)


def value_counts(given: Mapping[str, Any] | None) -> tuple[tuple[str, float], ...]:
    """What `distinct=` says, in an order that does not depend on how it was written."""
    return tuple(sorted((name, float(count)) for name, count in (given or {}).items()))


def _read(rate: Any) -> tuple[float, float | None]:
    """The number of rows, and in how many microseconds they come; None where that is not said."""
    if not isinstance(rate, str):
        return float(rate), None
    match = _RATE.fullmatch(rate)
    if match is None:
        raise UnfitError
    rows, span = match.groups()
    if span is None:
        return float(rows), None
    # `per minute` is `per 1 minute`.
    text = span if span[:1].isdigit() else f"1 {span}"
    try:
        microseconds = float(read_span(text)[0])
    except QueryError:
        raise UnfitError from None
    if not microseconds:
        raise UnfitError
    return float(rows), microseconds


def _rate(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UnfitError
    rows, _ = _read(value)
    if not 0 < rows < 1e18 or not math.isfinite(rows):
        raise UnfitError
    return value


def _value_counts(value: Any) -> Any:
    if not isinstance(value, Mapping) or not value:
        raise UnfitError
    for name, count in value.items():
        if not isinstance(name, str) or isinstance(count, bool):
            raise UnfitError
        if not isinstance(count, int | float) or not 1 <= count < 1e18:
            raise UnfitError
    return value


RATE: Final = ValueKind(
    "a number of rows per second above 0, or a string with a unit", "'600 per minute'", _rate
)
VALUE_COUNTS: Final = ValueKind(
    "a dictionary from columns to their numbers of different values, from 1 up",
    "{'item': 1000}",
    _value_counts,
)
