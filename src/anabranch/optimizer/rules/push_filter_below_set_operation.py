"""A filter moves into both sides of a set operation."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.filter import Filter
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.optimizer.pushing import filtered, part


def push_filter_below_set_operation(node: Node) -> Node | None:
    """Filter(x - y, p) -> Filter(x, p) - Filter(y, p), all four operations alike (K4, K8, K9)."""
    match node:
        case Filter(input=SetOperation(left=x, right=y) as both, predicate=p):
            same = both.kind == "max-union"
            moving, staying = part(p, lambda _: True, same_rows=same)
            if moving:
                below = replace(both, left=filtered(x, moving), right=filtered(y, moving))
                return filtered(below, staying)
    return None
