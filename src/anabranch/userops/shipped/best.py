"""The items with the highest scores."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from anabranch.userops.decorators import udo

T = TypeVar("T")

Placed: TypeAlias = tuple[Any, Any, float]
"""What orders an item, the item, and its score."""


@dataclass(frozen=True)
class Ranked(Generic[T]):
    """One of the best: its rank from 1 on, what it is, and its score."""

    rank: int
    item: T
    score: float


def _placed(item: Any, score: float) -> Placed:
    """Higher scores first, NaN before all as in SQL; items of one score in their own order."""
    by_score = (0, 0.0) if math.isnan(score) else (1, -score)
    own = item if isinstance(item, int | str) else repr(item)
    return (by_score, own), item, score


def _order(placed: Placed) -> Any:
    return placed[0]


def _ranked(ordered: list[Placed], k: int) -> list[Ranked[Any]]:
    return [Ranked(rank, item, score) for rank, (_, item, score) in enumerate(ordered[:k], 1)]


@udo
def best(items: list[T], scores: list[float], *, k: int = 3) -> list[Ranked[T]]:
    """The `k` items with the highest scores.

    >>> [each.item for each in best(["a", "b", "c"], [1.0, 9.0, 5.0], k=2)]
    ['b', 'c']
    """
    return _ranked(sorted(map(_placed, items, scores), key=_order), k)


@udo(name="best_incremental")
class BestIncremental:
    """The same; all items are kept in order, so that one that goes makes room for the next."""

    def __init__(self, *, k: int = 3) -> None:
        self.k = k

    def initial(self) -> list[Placed]:
        """No items."""
        return []

    def add(self, state: list[Placed], item: T, score: float) -> list[Placed]:
        """One item more, in its place."""
        insort(state, _placed(item, score), key=_order)
        return state

    def remove(self, state: list[Placed], item: T, score: float) -> list[Placed]:
        """One item less."""
        del state[bisect_left(state, _placed(item, score)[0], key=_order)]
        return state

    def compute(self, state: list[Placed]) -> list[Ranked[T]]:
        """The first of them."""
        return _ranked(state, self.k)
