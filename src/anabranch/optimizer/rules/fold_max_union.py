"""A max-union written in other words, or with less to do."""

from __future__ import annotations

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.union import Union
from anabranch.optimizer.uniqueness import no_duplicates


def fold_max_union(node: Node) -> Node | None:
    """X + (y - x) -> Max-union(x, y) (K20); (x - y) + (y - x) + (x ∩ y) likewise.

    Max-union(x, y) -> Distinct(x + y), if neither has duplicates (K14).
    """
    match node:
        case SetOperation(kind="max-union", left=x, right=y):
            if no_duplicates(x) and no_duplicates(y):
                return Distinct(input=Union(inputs=(x, y)))
        case Union(inputs=(x, SetOperation(kind="difference", left=y, right=z))) if x == z:
            return SetOperation(kind="max-union", left=x, right=y)
        case Union(inputs=(SetOperation(kind="difference", left=y, right=z), x)) if x == z:
            return SetOperation(kind="max-union", left=x, right=y)
        case Union(inputs=(SetOperation(), SetOperation(), SetOperation())):
            return _three(node)
    return None


def _three(node: Union) -> Node | None:
    """(x - y) + (y - x) + (x ∩ y), in any order (Kraemer 2007, 8.13)."""
    parts = [each for each in node.inputs if isinstance(each, SetOperation)]
    differences = [each for each in parts if each.kind == "difference"]
    common = [each for each in parts if each.kind == "intersection"]
    if len(differences) != 2 or len(common) != 1:
        return None
    first, second = differences
    if (first.left, first.right) != (second.right, second.left):
        return None
    x, y = first.left, first.right
    if (common[0].left, common[0].right) not in ((x, y), (y, x)):
        return None
    return SetOperation(kind="max-union", left=x, right=y)
