"""Duplicates that nobody sees need not be removed."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.analysis.join_keys import JoinKeys
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.optimizer.duplicates import ignores_duplicates, without_distinct
from anabranch.optimizer.uniqueness import no_duplicates


def drop_hidden_distinct(node: Node) -> Node | None:
    """op(Distinct(x)) -> op(x), if op does not see duplicates of x (K13-K15, K21, W10).

    So are: another distinct; MIN, MAX and aggregates of distinct values; the right side of a
    semi-join, an anti-join (by a key: else every duplicate is compared) and a strict difference;
    a side of an intersection whose other side has no duplicates. Filters, maps, unions and windows
    may lie between.
    """
    match node:
        case Distinct(input=x):
            found = without_distinct(x)
            return None if found is None else replace(node, input=found)
        case Aggregation(input=x) if ignores_duplicates(node):
            found = without_distinct(x)
            return None if found is None else replace(node, input=found)
        case Join(kind="semi" | "anti") if not JoinKeys.of(node).left:
            return None
        case Join(kind="semi" | "anti", right=y) | SetOperation(kind="strict difference", right=y):
            found = without_distinct(y)
            return None if found is None else replace(node, right=found)
        case SetOperation(kind="intersection", left=x, right=y):
            right = without_distinct(y) if no_duplicates(x) else None
            if right is not None:
                return replace(node, right=right)
            left = without_distinct(x) if no_duplicates(y) else None
            return None if left is None else replace(node, left=left)
    return None
