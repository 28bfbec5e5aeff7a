"""What a join asks of one side alone is asked before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjoin, conjuncts
from anabranch.optimizer.pushing import filtered, part

_SIDES: Final[Mapping[JoinKind, tuple[str, ...]]] = {
    "inner": ("left", "right"),
    "left": ("right",),
    "right": ("left",),
    "full": (),
    "semi": ("left", "right"),
    "anti": ("right",),
}
"""The sides whose rows do not leave without a partner."""


def push_join_predicate(node: Node) -> Node | None:
    """Join(x, y, q AND p) -> Join(Filter(x, p), y, q), p over columns of x (K3).

    Not for a side whose rows leave without a partner, too: they would be missing.
    """
    match node:
        case Join(predicate=p) if p is not None and _SIDES[node.kind]:
            staying = list(conjuncts(p))
            sides = {"left": node.left, "right": node.right}
            for side in _SIDES[node.kind]:
                moving, staying = _parted(staying, frozenset(sides[side].schema.names))
                sides[side] = filtered(sides[side], moving)
            if len(staying) < len(conjuncts(p)):
                rest = conjoin(staying) if staying else None
                return replace(node, left=sides["left"], right=sides["right"], predicate=rest)
    return None


def _parted(
    conditions: list[Expression], names: frozenset[str]
) -> tuple[list[Expression], list[Expression]]:
    if not conditions:
        return [], []
    predicate = conjoin(conditions)
    return part(predicate, lambda c: bool(c.columns) and c.columns <= names, same_rows=False)
