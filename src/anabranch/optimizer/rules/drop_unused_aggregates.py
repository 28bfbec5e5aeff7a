"""Aggregates that nobody reads."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.optimizer.ordering import columns_of
from anabranch.optimizer.pushing import filtered, mapped


def drop_unused_aggregates(node: Node) -> Node | None:
    """Map(Aggregate(x, by g, a and b), f) -> Map(Aggregate(x, by g, a), f), f without b.

    For modules alike, unless windows for which one of them fails are left out: that shows.
    """
    match node:
        case Map(input=x, columns=columns):
            below = _below(x, columns_of(*(each for _, each in columns)))
            return None if below is None else mapped(node, below)
    return None


def _below(node: Node, needed: frozenset[str]) -> Node | None:
    match node:
        case Filter(input=x, predicate=p):
            below = _below(x, needed | p.columns)
            return None if below is None else filtered(below, [p])
        case Aggregation(group_by=groups, aggregates=calls):
            kept = tuple((name, call) for name, call in calls if name in needed)
            # One row says that there is something, even if nobody asks what.
            kept = kept if kept or groups else calls[:1]
            return replace(node, aggregates=kept) if len(kept) < len(calls) else None
        case ApplyOperator(calls=operators, errors="fail"):
            used = tuple(call for call in operators if needed & set(call.names)) or operators[:1]
            return replace(node, calls=used) if len(used) < len(operators) else None
    return None
