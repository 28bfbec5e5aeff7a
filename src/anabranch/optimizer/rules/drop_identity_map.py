"""A map that changes nothing."""

from __future__ import annotations

from anabranch.algebra.map import Map
from anabranch.algebra.node import Node


def drop_identity_map(node: Node) -> Node | None:
    """Map(x, all columns of x as they are) -> x."""
    match node:
        case Map(input=x, columns=columns):
            same = [(name, each.is_column) for name, each in columns]
            if same == [(name, name) for name in x.schema.names]:
                return x
    return None
