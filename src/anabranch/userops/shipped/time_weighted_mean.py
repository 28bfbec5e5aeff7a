"""The mean of values that count as long as they hold."""

from __future__ import annotations

from anabranch.algebra.modules.user_operator import Event, Window
from anabranch.userops.decorators import uda
from anabranch.userops.shipped.exact_sum import ZERO, ExactSum, over, plus


@uda
def time_weighted_mean(events: list[Event[float]], window: Window) -> float:
    """The sum of value times duration inside the window, over the length of the window.

    Where nothing holds counts as 0. What lies outside of the window is cut off here, so the result
    is the same for any clipping; with `clip => 'full'` windows are settled as soon as they end.

    >>> time_weighted_mean([Event(6.0, 0, 4), Event(3.0, 8, 20)], Window(0, 10))
    3.0
    """
    total = ZERO
    for event in events:
        inside = min(event.end, window.end) - max(event.start, window.start)
        total = plus(total, event.value, inside)
    return over(total, window.length)


@uda(name="time_weighted_mean_incremental")
class TimeWeightedMean:
    """The same, kept up to date event by event.

    What is added is added before the window is known: it needs `clip => 'full'`.
    """

    def initial(self) -> ExactSum:
        """Nothing holds."""
        return ZERO

    def add(self, state: ExactSum, event: Event[float]) -> ExactSum:
        """One event more."""
        return plus(state, event.value, event.length)

    def remove(self, state: ExactSum, event: Event[float]) -> ExactSum:
        """One event less."""
        return plus(state, event.value, -event.length)

    def compute(self, state: ExactSum, window: Window) -> float:
        """The sum over the length of the window."""
        return over(state, window.length)
