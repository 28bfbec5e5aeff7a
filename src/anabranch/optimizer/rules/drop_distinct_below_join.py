"""Duplicates that meet and are removed afterwards."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.node import Node
from anabranch.optimizer.duplicates import ignores_duplicates, without_distinct


def drop_distinct_below_join(node: Node) -> Node | None:
    """Distinct(Map(Join(Distinct(x), y), f)) -> Distinct(Map(Join(x, y), f)) (K13, R-10.6).

    As `drop_hidden_distinct`, but through joins, which may have to hold more without it.
    """
    match node:
        case Distinct(input=x):
            found = without_distinct(x, joins=True)
            return None if found is None else replace(node, input=found)
        case Aggregation(input=x) if ignores_duplicates(node):
            found = without_distinct(x, joins=True)
            return None if found is None else replace(node, input=found)
    return None
