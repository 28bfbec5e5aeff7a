"""What is taken away in two steps is taken away in one."""

from __future__ import annotations

from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.union import Union


def merge_differences(node: Node) -> Node | None:
    """(x - y) - z -> x - (y + z), strict differences alike (K19)."""
    match node:
        case SetOperation(
            kind="difference" | "strict difference" as kind,
            left=SetOperation(kind=inner, left=x, right=y),
            right=z,
        ) if inner == kind:
            return SetOperation(kind=kind, left=x, right=Union(inputs=(y, z)))
    return None
