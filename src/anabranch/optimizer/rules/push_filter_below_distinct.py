"""A filter asks before duplicates are removed."""

from __future__ import annotations

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.node import Node


def push_filter_below_distinct(node: Node) -> Node | None:
    """Filter(Distinct(x), p) -> Distinct(Filter(x, p)) (K5)."""
    match node:
        case Filter(input=Distinct(input=x), predicate=p):
            return Distinct(input=Filter(input=x, predicate=p))
    return None
