"""What traders ask of prices."""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum
from typing import NamedTuple

import anabranch as ab


@ab.uda
def vwap(prices: list[float], sizes: list[int]) -> float | None:
    """The mean price per piece: every price counts as often as pieces were sold for it.

    >>> vwap([10.0, 20.0], [3, 1])
    12.5
    """
    pieces = sum(sizes)
    return fsum(price * size for price, size in zip(prices, sizes)) / pieces if pieces else None


class Streak(NamedTuple):
    """Prices that rose one after the other."""

    steps: int
    gain: float


@ab.udo
def streaks(
    events: list[ab.Event[float]], window: ab.Window, *, least: int = 2
) -> Iterator[ab.Event[Streak]]:
    """Every rise of at least `least` steps inside the window, as long as it lasted.

    Prices of one instant count as their mean.
    """
    instants: dict[int, list[float]] = {}
    for event in events:
        if event.start >= window.start:
            instants.setdefault(event.start, []).append(event.value)
    path = [(start, fsum(prices) / len(prices)) for start, prices in sorted(instants.items())]
    begin = 0
    for place in range(1, len(path) + 1):
        if place == len(path) or not path[place][1] > path[place - 1][1]:
            if place - 1 - begin >= least:
                (start, low), (end, high) = path[begin], path[place - 1]
                yield ab.Event(Streak(place - 1 - begin, high - low), start, end)
            begin = place
