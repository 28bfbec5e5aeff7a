"""Plans without duplicate elimination, for where duplicates do not count."""

from __future__ import annotations

from typing import Final

from anabranch.algebra.analysis.presence import ignores_duplicates as ignores_duplicates
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation

_SET_KINDS: Final = ("strict difference", "intersection", "max-union")


def without_distinct(node: Node, *, joins: bool = False) -> Node | None:
    """A plan whose snapshots hold the same payloads, any number of times; None if there is none.

    What is passed through are operators for which the payloads of an output snapshot depend on
    the payloads of input snapshots alone, not on how many there are.
    """
    if isinstance(node, Distinct):
        return node.input
    passes = node.traits.passes_presence or node.traits.same_snapshots
    passes |= isinstance(node, SetOperation) and node.kind in _SET_KINDS
    passes |= joins and isinstance(node, Join)
    if not passes:
        return None
    found = [without_distinct(each, joins=joins) for each in node.inputs]
    if all(each is None for each in found):
        return None
    inputs = [old if new is None else new for old, new in zip(node.inputs, found)]
    return node.with_inputs(*inputs)
