"""A filter on one side of a join moves to that side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjoin, conjuncts
from anabranch.optimizer.pushing import filtered, part

OPEN_SIDES: Final[Mapping[JoinKind, tuple[str, ...]]] = {
    "inner": ("left", "right"),
    "left": ("left",),
    "right": ("right",),
    "full": (),
    "semi": ("left",),
    "anti": ("left",),
}
"""The sides whose rows leave with all their columns as they were."""


def push_filter_below_join(node: Node) -> Node | None:
    """Filter(Join(x, y), p) -> Join(Filter(x, p), y), p over columns of x (K3, K9).

    Of an outer join only the side that is kept can be asked beforehand: the other one may be
    padded with NULLs. Of semi- and anti-joins only the left side is there to be asked.
    """
    match node:
        case Filter(input=Join() as join, predicate=p):
            staying = list(conjuncts(p))
            sides = {"left": join.left, "right": join.right}
            for side in OPEN_SIDES[join.kind]:
                moving, staying = _parted(staying, frozenset(sides[side].schema.names))
                sides[side] = filtered(sides[side], moving)
            if len(staying) < len(conjuncts(p)):
                return filtered(replace(join, left=sides["left"], right=sides["right"]), staying)
    return None


def _parted(
    conditions: list[Expression], names: frozenset[str]
) -> tuple[list[Expression], list[Expression]]:
    if not conditions:
        return [], []
    return part(conjoin(conditions), lambda c: c.columns <= names, same_rows=False)
