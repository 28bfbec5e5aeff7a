"""A filter moves into every branch of a union."""

from __future__ import annotations

from anabranch.algebra.filter import Filter
from anabranch.algebra.node import Node
from anabranch.algebra.union import Union
from anabranch.expressions.rewriting import conjuncts
from anabranch.optimizer.pushing import filtered


def push_filter_below_union(node: Node) -> Node | None:
    """Filter(Union(x, y), p) -> Union(Filter(x, p), Filter(y, p)) (R-10.5)."""
    match node:
        case Filter(input=Union(inputs=inputs), predicate=p):
            return Union(inputs=tuple(filtered(each, conjuncts(p)) for each in inputs))
    return None
