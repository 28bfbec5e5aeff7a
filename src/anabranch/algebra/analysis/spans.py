"""Stretches of time in which something changes, or is needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from anabranch.model.time import BEGINNING, FOREVER, Time

Span: TypeAlias = tuple[Time, Time]
"""The instants `[first, last)`; BEGINNING and FOREVER where there is no bound."""

EVERYTHING: Final[Span] = (BEGINNING, FOREVER)
NOTHING: Final[Span] = (BEGINNING, BEGINNING)
"""The one form of a span without instants."""


def span(first: int, last: int) -> Span:
    """The instants from `first` up to `last`, as far as they are in time.

    >>> span(3, 7), span(7, 3) == NOTHING, span(-(2**70), 2**70) == EVERYTHING
    ((3, 7), True, True)
    """
    low, high = max(first, BEGINNING), min(last, FOREVER)
    return (Time(low), Time(high)) if low < high else NOTHING


def moved(over: Span, *, first: int = 0, last: int = 0) -> Span:
    """Both bounds moved, those that are not bounds excepted."""
    low, high = over
    return span(
        low if low == BEGINNING else low + first,
        high if high == FOREVER else high + last,
    )


def hull(spans: Iterable[Span]) -> Span:
    """The least span that has all of them.

    >>> hull([(Time(1), Time(3)), NOTHING, (Time(7), Time(9))]), hull([]) == NOTHING
    ((1, 9), True)
    """
    found = [each for each in spans if each != NOTHING]
    if not found:
        return NOTHING
    return min(first for first, _ in found), max(last for _, last in found)
