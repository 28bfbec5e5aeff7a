"""A filter asks before columns are computed."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.optimizer.pushing import composed


def push_filter_below_map(node: Node) -> Node | None:
    """Filter(Map(x, f), p) -> Map(Filter(x, p after f), f) (K6)."""
    match node:
        case Filter(input=Map(input=x, columns=f) as mapping, predicate=p):
            below = composed(p, dict(f), x.schema)
            if below is not None:
                return replace(mapping, input=Filter(input=x, predicate=below))
    return None
