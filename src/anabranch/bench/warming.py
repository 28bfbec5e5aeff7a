"""Run something until it is warm: compilers of Java and of Python need several runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

FASTER: Final = 1.03
"""A run that is not faster than the best before by so much may be warm."""

IN_A_ROW: Final = 2
"""So many of them in a row say that it is; one alone may have been disturbed."""


def warm_up(run: Callable[[int], float], most: int) -> Iterator[float]:
    """Run until that is no faster than before, at most so many times; the speed of each run.

    A run gets its number and gives a speed, of which more is better.

    >>> speeds = [1.0, 1.9, 1.5, 2.1, 2.12, 2.0, 3.0]
    >>> list(warm_up(lambda number: speeds[number], most=9))
    [1.0, 1.9, 1.5, 2.1, 2.12, 2.0]
    """
    best, as_fast = 0.0, 0
    for number in range(most):
        speed = run(number)
        yield speed
        as_fast = 0 if speed > best * FASTER else as_fast + 1
        if as_fast == IN_A_ROW:
            return
        best = max(best, speed)
