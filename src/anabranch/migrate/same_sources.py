"""Sources of a changed query are those of the running one, whatever is expected of them by now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anabranch.algebra.node import Node
from anabranch.algebra.source import Source


def with_sources_of(new: Sequence[Node], running: Sequence[Node]) -> tuple[Node, ...]:
    """The new plans over the sources of the running ones.

    RATE and DISTINCT may be declared in another way than before. Plans are priced by them; what
    they compute does not depend on it, and stages that compute the same go on with their state.
    """
    before = {
        each.name: each for node in running for each in node.walk() if isinstance(each, Source)
    }
    found: dict[int, Node] = {}

    def over(node: Node) -> Node:
        if id(node) not in found:
            found[id(node)] = _over(node)
        return found[id(node)]

    def _over(node: Node) -> Node:
        if isinstance(node, Source):
            was = before.get(node.name, node)
            if (node.rate, node.distinct) == (was.rate, was.distinct):
                return node
            same = replace(node, rate=was.rate, distinct=was.distinct)
            return same if same == was else node
        inputs = tuple(map(over, node.inputs))
        is_same = all(now is was for now, was in zip(inputs, node.inputs, strict=True))
        return node if is_same else node.with_inputs(*inputs)

    return tuple(map(over, new))
