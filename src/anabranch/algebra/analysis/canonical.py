"""Which plans give one physical form to one meaning, and how to make the others do so."""

from __future__ import annotations

from dataclasses import replace

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
    if isinstance(node, Coalesce):
        return replace(node, for_merge=True)
    return node if _is_canonical(node) else Coalesce(input=node, for_merge=True)


def is_for_merge(node: Node) -> bool:
    """Whether a plan was made canonical, at the end or before what keeps the events."""
    if isinstance(node, Coalesce):
        return node.for_merge
    is_ordering = isinstance(node, Cleanse) and not node.cut
    keeps = is_ordering or node.traits.events == "kept"
    return keeps and any(map(is_for_merge, node.inputs))


def _is_canonical(node: Node) -> bool:
    # Not `Distinct`, which writes the longest lifetimes, too: where nothing holds twice the
    # optimizer leaves it out.
    if isinstance(node, (Source, Coalesce)):
        return True
    if isinstance(node, Cleanse) and not node.cut:
        return _is_canonical(node.input)
    return node.traits.events == "kept" and all(map(_is_canonical, node.inputs))
