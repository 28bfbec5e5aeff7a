"""How often an engine runs a query before its runs count: the same rule for everyone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

FASTER: Final = 1.03
"""Runs differ by this much without a reason."""

IN_A_ROW: Final = 2
"""So many runs in a row that are no faster than the best before them say that an engine is warm."""

SLOW_SECONDS: Final = 5.0
SLOW_WARM_UPS: Final = 2
"""A run of more than `SLOW_SECONDS` gives a compiler time enough: so many of them do."""


def is_warm(seconds: Sequence[float], most: int) -> bool:
    """Whether an engine that has run a query in so many seconds each is warm, or has had enough.

    >>> is_warm([3.0, 2.0, 1.99], most=5), is_warm([3.0, 2.0, 1.99, 2.01], most=5)
    (False, True)
    >>> is_warm([5.0, 4.0, 3.0, 2.0, 1.0], most=5), is_warm([30.0, 20.0], most=5)
    (True, True)
    """
    if len(seconds) >= most:
        return True
    if seconds and min(seconds) > SLOW_SECONDS:
        return len(seconds) >= SLOW_WARM_UPS
    if len(seconds) <= IN_A_ROW:
        return False
    return all(
        seconds[number] * FASTER >= min(seconds[:number])
        for number in range(len(seconds) - IN_A_ROW, len(seconds))
    )
