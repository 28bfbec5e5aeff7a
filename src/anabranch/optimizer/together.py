"""Several plans at once: what they have in common stays in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.optimizer.driver import optimize
from anabranch.optimizer.sharing import common_subplans


def leaf_for(node: Node, name: str) -> Source:
    """A source that stands for the results of a plan, with what is known of them."""
    known = node.properties
    return Source(
        name=name,
        schema=node.schema,
        insert_only=known.insert_only,
        only_points=known.only_points,
        no_duplicates=known.no_duplicates,
        keyed=known.keyed,
        timestamps=any(each.timestamps for each in node.walk() if isinstance(each, Source)),
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


def optimize_together(plans: Sequence[Node]) -> list[Node]:
    """Optimise plans that are to run together.

    Rules that look at one plan alone might do different things to a part that several have. So
    every common part is optimised by itself, as if it were a source of the others.
    """
    common = common_subplans(plans)
    leaves = {node: leaf_for(node, f"common {place}") for place, node in enumerate(common, 1)}
    back: dict[Node, Node] = {}
    # The smallest first: a common part may have another in it.
    for node in reversed(common):
        others = {key: leaf for key, leaf in leaves.items() if key != node}
        back[leaves[node]] = cut_off(optimize(cut_off(node, others)).node, back)
    return [cut_off(optimize(cut_off(plan, leaves)).node, back) for plan in plans]
