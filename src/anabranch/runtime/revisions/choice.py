"""Which input a correction replays: all of it, what lineage names, or what windows reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

Strategy: TypeAlias = Literal["RA", "RM", "RW"]
"""Replay all that is archived; what the lineage of answers names; what the windows reach."""

StrategyChoice: TypeAlias = Strategy | Literal["auto"]
"""`auto`: the cheapest of them, correction by correction."""

FIXED_COSTS: Final[Mapping[Strategy, int]] = {"RW": 0, "RM": 4096, "RA": 0}
"""What a strategy costs beside the rows it reads, in rows that could be read meanwhile.

RW follows from the plan in microseconds, and RA needs nothing. RM has to read the lineage of the
answers: about a millisecond, in which some thousand rows are read and replayed.
"""

_PREFERRED: Final[tuple[Strategy, ...]] = ("RW", "RM", "RA")


def cheapest(rows: Mapping[Strategy, int], *, is_bounded: bool) -> Strategy:
    """The strategy to correct answers with.

    The costs of a strategy are the rows that it reads, as the index of the archive tells them, and
    what it costs to find them. The same costs are decided for RW before RM before RA.

    Args:
        rows: How many rows each strategy reads, of those that are possible.
        is_bounded: Whether the windows of the plan have a bound. If not, RW replays everything, and
            is called what it is then: RA.

    >>> cheapest({"RW": 300, "RA": 86_400}, is_bounded=True)
    'RW'
    >>> cheapest({"RW": 86_400, "RA": 86_400}, is_bounded=False)
    'RA'
    >>> cheapest({"RW": 50_000, "RM": 300, "RA": 86_400}, is_bounded=True)
    'RM'
    """
    possible = [each for each in _PREFERRED if each in rows and (is_bounded or each != "RW")]
    return min(possible, key=lambda each: rows[each] + FIXED_COSTS[each])
