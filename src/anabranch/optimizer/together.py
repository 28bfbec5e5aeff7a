"""Several plans at once: what they have in common stays in common."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.algebra.node import Node
from anabranch.optimizer.driver import optimize
from anabranch.optimizer.leaves import cut_off, leaf_for
from anabranch.optimizer.sharing import common_subplans


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
