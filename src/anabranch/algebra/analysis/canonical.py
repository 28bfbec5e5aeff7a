"""Which plans give one physical form to one meaning, and how to make the others do so."""

from __future__ import annotations

from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source


def canonical(node: Node) -> Node:
    """The same stream, whose events depend on its meaning and its sources alone.

    How an operator cuts lifetimes depends on what came when, and on its plan. So copies that are
    computed are written with the longest lifetimes; what sources say is taken as it is. Events that
    are released whole, in order, stay that way: their input is made canonical.
    """
    if isinstance(node, Cleanse) and not node.cut:
        return node.with_inputs(canonical(node.input))
    return node if _is_canonical(node) else Coalesce(input=node)


def is_coalesced(node: Node) -> bool:
    """Whether events are written with the longest lifetimes, at the end or before an ordering."""
    if isinstance(node, Cleanse) and not node.cut:
        return is_coalesced(node.input)
    return isinstance(node, Coalesce)


def _is_canonical(node: Node) -> bool:
    # Not `Distinct`, which writes the longest lifetimes, too: where nothing holds twice the
    # optimizer leaves it out.
    if isinstance(node, (Source, Coalesce)):
        return True
    if isinstance(node, Cleanse) and not node.cut:
        return _is_canonical(node.input)
    return node.traits.events == "kept" and all(map(_is_canonical, node.inputs))
