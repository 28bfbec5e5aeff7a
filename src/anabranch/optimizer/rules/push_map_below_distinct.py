"""Columns get other names before duplicates are removed."""

from __future__ import annotations

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.optimizer.pushing import mapped, renaming


def push_map_below_distinct(node: Node) -> Node | None:
    """Map(Distinct(x), f) -> Distinct(Map(x, f)), f keeps every column exactly once (K12)."""
    match node:
        case Map(input=Distinct(input=x), columns=f) if renaming(f, x) is not None:
            return Distinct(input=mapped(node, x))
    return None
