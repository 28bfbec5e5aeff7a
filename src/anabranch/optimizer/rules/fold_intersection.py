"""An intersection written as two differences."""

from __future__ import annotations

from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.optimizer.uniqueness import no_duplicates


def fold_intersection(node: Node) -> Node | None:
    """X - (x - y) -> Intersection(x, y) (Kraemer 2007, 8.12).

    With strict differences this is an intersection only if x has no duplicates.
    """
    match node:
        case SetOperation(
            kind="difference" | "strict difference" as outer,
            left=x,
            right=SetOperation(
                kind="difference" | "strict difference" as inner, left=again, right=y
            ),
        ) if x == again and (outer == inner == "difference" or no_duplicates(x)):
            return SetOperation(kind="intersection", left=x, right=y)
    return None
