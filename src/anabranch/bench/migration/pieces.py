"""Elements with lifetimes, one by one, and how two lists of them differ as snapshots.

Times are numbers, not only whole ones: a split time of the paper lies half a chronon beside every
start and end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

Values: TypeAlias = tuple[object, ...]
Emit: TypeAlias = Callable[["Stretch"], None]

NEVER: Final = float("inf")


class Stretch(NamedTuple):
    """A payload that holds in [start, end).

    It is `new` if all that it is made of came after the start of a migration.
    """

    payload: Values
    start: float
    end: float
    new: bool = False

    def between(self, first: float, last: float) -> Stretch | None:
        """What of it holds in [first, last); None where that is nothing."""
        start, end = max(self.start, first), min(self.end, last)
        return self._replace(start=start, end=end) if start < end else None


class Excess(NamedTuple):
    """A payload that holds too often in [start, end), or too rarely where `times` is negative."""

    payload: Values
    start: float
    end: float
    times: int


def differences(wanted: Iterable[Stretch], found: Iterable[Stretch]) -> list[Excess]:
    """Where the snapshots of two streams differ; nothing for equal streams."""
    moves: dict[Values, dict[float, int]] = defaultdict(lambda: defaultdict(int))
    for sign, pieces in ((-1, wanted), (1, found)):
        for piece in pieces:
            moves[piece.payload][piece.start] += sign
            moves[piece.payload][piece.end] -= sign
    return [each for payload, own in moves.items() for each in _steps(payload, own)]


def _steps(payload: Values, moves: Mapping[float, int]) -> Iterator[Excess]:
    times, since = 0, 0.0
    for instant, change in sorted(moves.items()):
        if change == 0:
            continue
        if times:
            yield Excess(payload, since, instant, times)
        times, since = times + change, instant


def lost(excess: Iterable[Excess]) -> float:
    """The time for which results are missing, each counted by itself."""
    return sum(-each.times * (each.end - each.start) for each in excess if each.times < 0)


def doubled(excess: Iterable[Excess]) -> float:
    """The time for which results hold once too often, each counted by itself."""
    return sum(each.times * (each.end - each.start) for each in excess if each.times > 0)
