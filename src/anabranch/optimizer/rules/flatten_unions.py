"""A union of unions is one."""

from __future__ import annotations

from anabranch.algebra.node import Node
from anabranch.algebra.union import Union


def flatten_unions(node: Node) -> Node | None:
    """Union(Union(x, y), z) -> Union(x, y, z) (K17); Union(x) -> x."""
    match node:
        case Union(inputs=(x,)):
            return x
        case Union(inputs=inputs) if any(isinstance(each, Union) for each in inputs):
            flat = [
                part
                for each in inputs
                for part in (each.inputs if isinstance(each, Union) else [each])
            ]
            return Union(inputs=tuple(flat))
    return None
