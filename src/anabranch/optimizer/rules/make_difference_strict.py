"""A difference of which the left side has no duplicates."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.optimizer.uniqueness import no_duplicates


def make_difference_strict(node: Node) -> Node | None:
    """Difference(x, y) -> Strict difference(x, y), if x has no duplicates (K16).

    A strict difference does not see duplicates of y, so they need not be removed.
    """
    match node:
        case SetOperation(kind="difference", left=x) if no_duplicates(x):
            return replace(node, kind="strict difference")
    return None
