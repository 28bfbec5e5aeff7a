"""Duplicates that cannot be there."""

from __future__ import annotations

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.node import Node
from anabranch.optimizer.uniqueness import no_duplicates


def drop_needless_distinct(node: Node) -> Node | None:
    """Distinct(x) -> x, if x has no duplicates (K13)."""
    match node:
        case Distinct(input=x) if no_duplicates(x):
            return x
    return None
