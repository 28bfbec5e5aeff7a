"""Which plans give one physical form to one meaning, and how to make the others do so."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source


def canonical(node: Node) -> Node:
    """The same stream, whose events depend on its meaning and its sources alone.

    How an operator cuts lifetimes depends on what came when, and on its plan. So copies that are
    computed are written with the longest lifetimes; what sources say is taken as it is. Events that
    are released whole, in order, stay that way, and what is only picked or renamed of them: what is
    below becomes canonical.
    """
    if isinstance(node, Coalesce):
        return replace(node, for_merge=True)
    if _is_as_sources_say(node):
        return node
    if _is_ordering(node) or (_keeps_longest(node) and _ends_in_longest(node)):
        (below,) = node.inputs
        return node.with_inputs(canonical(below))
    return Coalesce(input=node, for_merge=True)


def is_for_merge(node: Node) -> bool:
    """Whether a plan was made canonical, at the end or before what keeps the events."""
    if isinstance(node, Coalesce):
        return node.for_merge
    keeps = _is_ordering(node) or node.traits.events == "kept"
    return keeps and any(map(is_for_merge, node.inputs))


def _is_ordering(node: Node) -> bool:
    return isinstance(node, Cleanse) and not node.cut


def _is_as_sources_say(node: Node) -> bool:
    """Whether every event is one of a source."""
    if isinstance(node, Source):
        return True
    keeps = _is_ordering(node) or node.traits.events == "kept"
    return keeps and all(map(_is_as_sources_say, node.inputs))


def _keeps_longest(node: Node) -> bool:
    """Whether lifetimes that are as long as can be stay so: no two payloads become equal.

    If (a, 1) holds in [0, 3) and (a, 2) in [3, 5), the first column alone is a in [0, 5). So are
    rows of two inputs, each with the longest lifetimes.
    """
    if isinstance(node, Map) and not node.keeps_columns:
        return False
    return node.traits.events == "kept" and len(node.inputs) == 1


def _ends_in_longest(node: Node) -> bool:
    """Whether nothing else is above a coalesce, or above events that are released whole.

    Not `Distinct`, which writes the longest lifetimes, too: where nothing holds twice the optimizer
    leaves it out.
    """
    if isinstance(node, Coalesce) or _is_ordering(node):
        return True
    return _keeps_longest(node) and _ends_in_longest(node.inputs[0])
