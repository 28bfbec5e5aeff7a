"""Several plans at once: what they have in common stays in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from anabranch.algebra.node import Node
from anabranch.optimizer.cost import CostModel
from anabranch.optimizer.driver import Optimized, optimize
from anabranch.optimizer.leaves import cut_off, leaf_for
from anabranch.optimizer.sharing import common_subplans
from anabranch.optimizer.statistics import PlanStatistics


def optimize_all(
    plans: Sequence[Node], statistics: PlanStatistics | None = None
) -> list[Optimized]:
    """Optimise plans that are to run together; of a single one, it is `optimize`.

    Rules that look at one plan alone might do different things to a part that several have. So
    every common part is optimised by itself, as if it were a source of the others. Its steps are
    steps of every plan that has it.
    """
    if len(plans) == 1:
        return [optimize(plans[0], statistics=statistics)]
    common = common_subplans(plans)
    model = CostModel(statistics)
    leaves: dict[Node, Node] = {
        node: replace(leaf_for(node, f"common {number}"), rate=model.estimate(node).stream.rate)
        for number, node in enumerate(common, 1)
    }
    parts: dict[Node, Optimized] = {}
    # The smallest first: a common part may have another in it.
    for node in reversed(common):
        others = {key: leaf for key, leaf in leaves.items() if key != node}
        parts[leaves[node]] = _optimized(cut_off(node, others), parts, statistics)
    return [_optimized(cut_off(plan, leaves), parts, statistics) for plan in plans]


def _optimized(
    plan: Node, parts: Mapping[Node, Optimized], statistics: PlanStatistics | None
) -> Optimized:
    """The best plan over parts that are optimised already, with their steps before its own."""
    found = optimize(plan, statistics=statistics)
    used = [parts[leaf] for leaf in dict.fromkeys(plan.walk()) if leaf in parts]
    steps = [step for part in used for step in part.steps]
    back = {leaf: part.node for leaf, part in parts.items()}
    return Optimized(cut_off(found.node, back), (*steps, *found.steps))
