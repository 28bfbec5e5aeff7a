"""Whole groups are left out before modules answer for their windows."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.filter import Filter
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.expressions.rewriting import conjoin
from anabranch.optimizer.pushing import composed, filtered, part


def push_filter_below_apply_module(node: Node) -> Node | None:
    """Filter(ApplyModule(x, by g), p) -> ApplyModule(Filter(x, p after g), by g).

    p must ask for columns of the group only, and every module must declare `group_filter`. A
    condition on the window or on a result decides about results, not about events. Some groups
    have no results, so p must not fail.
    """
    match node:
        case Filter(input=ApplyOperator(input=x, group_by=group) as operator, predicate=p):
            names = {name for name, _ in group}
            if not names or not _apart(operator):
                return None
            moving, staying = part(
                p, lambda c: bool(c.columns) and c.columns <= names, same_rows=False
            )
            below = composed(conjoin(moving), dict(group), x.schema) if moving else None
            if below is not None:
                return filtered(replace(operator, input=Filter(input=x, predicate=below)), staying)
    return None


def _apart(node: ApplyOperator) -> bool:
    """Whether the results of a group do not show that there are others.

    Empty windows, and what never ends, are looked at as far as their own group goes. But what
    fails is reported for every group.
    """
    declared = all("group_filter" in call.operator.properties for call in node.calls)
    return declared and node.errors != "quarantine"
