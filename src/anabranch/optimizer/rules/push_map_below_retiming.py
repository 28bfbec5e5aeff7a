"""A map moves below what changes all lifetimes alike, or only cuts them."""

from __future__ import annotations

from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.optimizer.failing import any_may_fail
from anabranch.optimizer.pushing import mapped


def push_map_below_retiming(node: Node) -> Node | None:
    """Map(op(x), f) -> op(Map(x, f)), if op moves each instant of all payloads alike.

    That is so for granularity, shift and clip, which may leave rows out that f must not fail
    for, and for coalesce, split and cleanse (Kraemer 2007, lemma 12.1). Below those three f must
    tell all payloads apart: else lifetimes of two payloads would become one, which who takes
    events for what they are would see. Example: (a, 0) holds in [0, 1) and (a, 2) in [1, 2);
    split and then mapped to a these are two events, mapped first they are one, [0, 2).
    """
    match node:
        case Map(input=below) if below.traits.same_snapshots:
            return below.with_inputs(mapped(node, below.inputs[0])) if node.keeps_columns else None
        case Map(input=below, columns=f):
            if below.traits.moves_instants and not any_may_fail(each for _, each in f):
                return below.with_inputs(mapped(node, below.inputs[0]))
    return None
