"""A map moves below what changes all lifetimes alike, or only cuts them."""

from __future__ import annotations

from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.optimizer.failing import any_may_fail
from anabranch.optimizer.pushing import mapped


def push_map_below_retiming(node: Node) -> Node | None:
    """Map(op(x), f) -> op(Map(x, f)), if op moves each instant of all payloads alike.

    That is so for granularity, shift and clip, which may leave rows out that f must not fail
    for, and for coalesce, split and cleanse (Kraemer 2007, lemma 12.1). Below a coalesce f must
    tell all payloads apart: else their lifetimes would become one, which who takes events for
    what they are would see.
    """
    match node:
        case Map(input=Coalesce(input=x), columns=f):
            kept = {each.is_column for _, each in f}
            return Coalesce(input=mapped(node, x)) if kept >= set(x.schema.names) else None
        case Map(input=below, columns=f):
            safe = below.traits.moves_instants and not any_may_fail(each for _, each in f)
            if below.traits.same_snapshots or safe:
                return below.with_inputs(mapped(node, below.inputs[0]))
    return None
