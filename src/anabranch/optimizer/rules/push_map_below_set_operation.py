"""Columns get other names before two streams are compared."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.optimizer.pushing import mapped, renaming


def push_map_below_set_operation(node: Node) -> Node | None:
    """Map(x - y, f) -> Map(x, f) - Map(y, f), f keeps every column exactly once (K12)."""
    match node:
        case Map(input=SetOperation(left=x, right=y) as both, columns=f):
            if renaming(f, x) is not None:
                return replace(both, left=mapped(node, x), right=mapped(node, y))
    return None
