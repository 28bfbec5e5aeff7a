"""A map moves below what changes all lifetimes alike, or only cuts them."""

from __future__ import annotations

from typing import Final

from anabranch.algebra.clip import Clip
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.split import Split
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.optimizer.failing import any_may_fail
from anabranch.optimizer.pushing import mapped

_NEUTRAL: Final = (Split, Cleanse)
_LINEAR: Final = (Granularity, Shift, Clip)


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
        case Map(input=below, columns=f) if isinstance(below, (*_NEUTRAL, *_LINEAR)):
            if isinstance(below, _NEUTRAL) or not any_may_fail(each for _, each in f):
                return below.with_inputs(mapped(node, below.inputs[0]))
    return None
