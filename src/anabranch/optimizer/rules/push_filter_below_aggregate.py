"""Whole groups are left out before they are summed up."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.filter import Filter
from anabranch.algebra.node import Node
from anabranch.expressions.rewriting import conjoin
from anabranch.optimizer.pushing import composed, filtered, part


def push_filter_below_aggregate(node: Node) -> Node | None:
    """Filter(Aggregate(x, by g), p) -> Aggregate(Filter(x, p after g), by g) (K7).

    p must ask for columns of the group only. Without a group there is nothing to ask for: a
    filter above a scalar aggregate decides about its one row.
    """
    match node:
        case Filter(input=Aggregation(input=x, group_by=group) as aggregate, predicate=p) if group:
            names = {name for name, _ in group}
            moving, staying = part(
                p, lambda c: bool(c.columns) and c.columns <= names, same_rows=True
            )
            below = composed(conjoin(moving), dict(group), x.schema) if moving else None
            if below is not None:
                return filtered(replace(aggregate, input=Filter(input=x, predicate=below)), staying)
    return None
