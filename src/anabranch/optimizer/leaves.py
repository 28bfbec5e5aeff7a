"""Sources that stand for sub-plans, so that no rule looks into these."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.source import Source


def leaf_for(node: Node, name: str) -> Source:
    """A source that stands for the results of a plan, with what is known of them."""
    properties = node.properties
    return Source(
        name=name,
        schema=node.schema,
        insert_only=properties.insert_only,
        only_points=properties.only_points,
        no_duplicates=properties.no_duplicates,
        keyed=properties.keyed,
        timestamps=clock_of(node).timestamps,
        chronon=clock_of(node).chronon,
        timeless=node.clock is None,
    )


def cut_off(node: Node, leaves: Mapping[Node, Node]) -> Node:
    """The plan with leaves in the place of some sub-plans."""
    if not leaves:
        return node
    if node in leaves:
        return leaves[node]
    if not node.inputs:
        return node
    return node.with_inputs(*(cut_off(below, leaves) for below in node.inputs))
