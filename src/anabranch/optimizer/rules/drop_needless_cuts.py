"""Cuts of lifetimes that nobody sees."""

from __future__ import annotations

from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.split import Split
from anabranch.algebra.node import Node


def drop_needless_cuts(node: Node) -> Node | None:
    """op(Split(x)) -> op(x) -> op(Coalesce(x)), op snapshot by snapshot (Kraemer 2007, 12.1).

    Also: Split(x) -> x for points (12.3), and one split for two where one of them is in vain.
    Below windows a split stays unless there are points; at the end of a plan both are what the
    user asked for.
    """
    match node:
        case Split(input=x) if x.properties.only_points:
            return x
        case Split(input=Split(input=x, length=inner), length=outer) if outer >= inner:
            return Split(input=x, length=inner)
        case Split(input=Split(input=x, length=inner), length=outer) if inner % outer == 0:
            return Split(input=x, length=outer)
        case _ if node.traits.writes_anew:
            cut = [isinstance(each, (Split, Coalesce)) for each in node.inputs]
            if any(cut):
                inputs = [
                    each.inputs[0] if is_cut else each for each, is_cut in zip(node.inputs, cut)
                ]
                return node.with_inputs(*inputs)
    return None
