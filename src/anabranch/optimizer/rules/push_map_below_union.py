"""A map moves into every branch of a union."""

from __future__ import annotations

from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.union import Union
from anabranch.optimizer.pushing import mapped


def push_map_below_union(node: Node) -> Node | None:
    """Map(Union(x, y), f) -> Union(Map(x, f), Map(y, f)) (K10)."""
    match node:
        case Map(input=Union(inputs=inputs)):
            return Union(inputs=tuple(mapped(node, each) for each in inputs))
    return None
