"""The slope of the straight line that fits values over time best."""

from __future__ import annotations

from typing import TypeAlias

from anabranch.algebra.modules.user_operator import Event
from anabranch.model.time import SECOND, Duration
from anabranch.userops.decorators import uda
from anabranch.userops.shipped.exact_sum import ZERO, ExactSum, fraction, plus

State: TypeAlias = tuple[int, int, int, ExactSum, ExactSum]
"""How many, and the sums of t, t * t, v and t * v; all exact."""

NONE: State = (0, 0, 0, ZERO, ZERO)


def _plus(state: State, event: Event[float], times: int) -> State:
    count, sum_t, sum_tt, sum_v, sum_tv = state
    time = event.start
    return (
        count + times,
        sum_t + times * time,
        sum_tt + times * time * time,
        plus(sum_v, event.value, times),
        plus(sum_tv, event.value, times * time),
    )


def _slope(state: State, per: int) -> float | None:
    """Least squares: (n * sum(tv) - sum(t) * sum(v)) / (n * sum(tt) - sum(t)**2)."""
    count, sum_t, sum_tt, sum_v, sum_tv = state
    across = count * sum_tt - sum_t * sum_t
    values, products = fraction(sum_v), fraction(sum_tv)
    if not across or values is None or products is None:
        return None
    slope = per * (count * products - sum_t * values) / across
    try:
        return float(slope)
    except OverflowError:
        return float("inf") if slope > 0 else float("-inf")


@uda(name="trend")
class Trend:
    """By how much values grow in the time `per`: a second, where times are microseconds.

    An event counts at its start. One instant has no trend, and neither have values that are no
    numbers.
    """

    def __init__(self, *, per: Duration = SECOND) -> None:
        self.per = per

    def initial(self) -> State:
        """No values."""
        return NONE

    def add(self, state: State, event: Event[float]) -> State:
        """One value more."""
        return _plus(state, event, 1)

    def remove(self, state: State, event: Event[float]) -> State:
        """One value less."""
        return _plus(state, event, -1)

    def compute(self, state: State) -> float | None:
        """The slope, rounded once."""
        return _slope(state, self.per)


@uda
def trend_plain(events: list[Event[float]], *, per: Duration = SECOND) -> float | None:
    """The same of a list.

    >>> trend_plain([Event(1.0, 0, 1), Event(3.0, 1, 2), Event(5.0, 2, 3)], per=1)
    2.0
    """
    state = NONE
    for event in events:
        state = _plus(state, event, 1)
    return _slope(state, per)
