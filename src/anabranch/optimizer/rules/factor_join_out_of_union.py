"""Joins with one and the same stream are one join."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.algebra.union import Union


def factor_join_out_of_union(node: Node) -> Node | None:
    """Union(Join(x, z, p), Join(y, z, p)) -> Join(Union(x, y), z, p) (K18).

    Also for semi-, anti- and left joins; for inner and right joins also on the right side.
    """
    match node:
        case Union(inputs=(Join() as first, _, *_) as inputs):
            joins = [each for each in inputs if isinstance(each, Join)]
            if len(joins) < len(inputs):
                return None
            shapes = {(each.kind, each.predicate, each.broadcast) for each in joins}
            if len(shapes) == 1:
                return _factored(first, joins)
    return None


def _factored(first: Join, joins: list[Join]) -> Node | None:
    left = tuple(each.left for each in joins)
    right = tuple(each.right for each in joins)
    same_left = all(each == first.left for each in left)
    same_right = all(each == first.right for each in right)
    if same_right and first.kind in ("inner", "semi", "anti", "left"):
        return replace(first, left=Union(inputs=left))
    if same_left and first.kind in ("inner", "right"):
        return replace(first, right=Union(inputs=right))
    return None
