"""What finds a partner and what does not is everything."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.algebra.union import Union


def merge_semi_and_anti(node: Node) -> Node | None:
    """Union(Semi join(x, y, p), Anti join(x, y, p)) -> x (K22)."""
    match node:
        case Union(inputs=inputs):
            for (i, semi), (j, anti) in product(enumerate(inputs), repeat=2):
                if _complement(semi, anti):
                    rest = [each for at, each in enumerate(inputs) if at not in (i, j)]
                    return Union(inputs=(semi.inputs[0], *rest))
    return None


def _complement(semi: Node, anti: Node) -> bool:
    match semi, anti:
        case Join(kind="semi"), Join(kind="anti"):
            return replace(anti, kind="semi", broadcast=semi.broadcast) == semi
    return False
