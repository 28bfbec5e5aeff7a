"""Pairs of plans that mean the same: the experiment's join orders, and other rewrites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast, final

from anabranch.bench.migration.boxes import (
    Box,
    BoxOperator,
    Inlet,
    NestedLoopsJoin,
    SnapshotOperator,
    SpanDistinct,
    bag_difference,
    first_column,
    sum_and_count,
)
from anabranch.bench.migration.pieces import Values


@final
@dataclass(frozen=True, slots=True)
class PlanPair:
    """A plan, the one to migrate to, and the sources of both."""

    old: Callable[[], Box]
    new: Callable[[], Box]
    sources: tuple[str, ...]


def join_orders(rounds: int = 0) -> PlanPair:
    """((A ⋈ B) ⋈ C) ⋈ D becomes A ⋈ (B ⋈ (C ⋈ D)); `rounds` make the predicate expensive."""

    def join(left: BoxOperator, right: BoxOperator) -> BoxOperator:
        return NestedLoopsJoin(left, right, rounds=rounds)

    def old() -> Box:
        first = join(Inlet("A"), Inlet("B"))
        return Box(join(join(first, Inlet("C")), Inlet("D")))

    def new() -> Box:
        last = join(Inlet("C"), Inlet("D"))
        return Box(join(Inlet("A"), join(Inlet("B"), last)))

    return PlanPair(old, new, ("A", "B", "C", "D"))


def distinct_below_join() -> PlanPair:
    """δ(A ⋈ B) becomes δ(A) ⋈ δ(B): the example in which Parallel Track is wrong."""

    def join(left: BoxOperator, right: BoxOperator) -> BoxOperator:
        return NestedLoopsJoin(left, right, combine=first_column)

    return PlanPair(
        lambda: Box(SpanDistinct(join(Inlet("A"), Inlet("B")))),
        lambda: Box(join(SpanDistinct(Inlet("A")), SpanDistinct(Inlet("B")))),
        ("A", "B"),
    )


def _aggregated() -> PlanPair:
    def plan(first: str, second: str) -> Box:
        pairs = NestedLoopsJoin(Inlet(first), Inlet(second), combine=first_column)
        return Box(SnapshotOperator(sum_and_count, pairs))

    return PlanPair(lambda: plan("A", "B"), lambda: plan("B", "A"), ("A", "B"))


def _grouped_below_join() -> PlanPair:
    def counted(below: BoxOperator) -> BoxOperator:
        return SnapshotOperator(_counts, below)

    def old() -> Box:
        return Box(counted(NestedLoopsJoin(Inlet("A"), Inlet("B"), combine=first_column)))

    def new() -> Box:
        return Box(
            NestedLoopsJoin(counted(Inlet("A")), counted(Inlet("B")), combine=_product_of_counts)
        )

    return PlanPair(old, new, ("A", "B"))


def _differences() -> PlanPair:
    def old() -> Box:
        both = SnapshotOperator(_together, Inlet("B"), Inlet("C"))
        return Box(SnapshotOperator(bag_difference, Inlet("A"), both))

    def new() -> Box:
        first = SnapshotOperator(bag_difference, Inlet("A"), Inlet("B"))
        return Box(SnapshotOperator(bag_difference, first, Inlet("C")))

    return PlanPair(old, new, ("A", "B", "C"))


def _counts(inputs: Sequence[Sequence[Values]]) -> Iterator[Values]:
    for payload, count in Counter(inputs[0]).items():
        yield (*payload, count)


def _product_of_counts(left: Values, right: Values) -> Values:
    return (left[0], cast("int", left[1]) * cast("int", right[1]))


def _together(inputs: Sequence[Sequence[Values]]) -> Iterator[Values]:
    for each in inputs:
        yield from each


REWRITES: Final[Mapping[str, Callable[[], PlanPair]]] = {
    "join order": join_orders,
    "distinct below a join": distinct_below_join,
    "sum and count over a join": _aggregated,
    "counts below a join": _grouped_below_join,
    "differences": _differences,
}
