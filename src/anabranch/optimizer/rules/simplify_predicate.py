"""Constant parts of a condition are decided once."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.optimizer.simplify import is_true, simplified


def simplify_predicate(node: Node) -> Node | None:
    """Filter(x, TRUE) -> x; Filter(x, p AND TRUE) -> Filter(x, p); joins alike.

    A filter by FALSE stays: there is no plan without rows.
    """
    match node:
        case Filter(input=x, predicate=p):
            simpler = simplified(p)
            if is_true(simpler):
                return x
            return None if simpler == p else replace(node, predicate=simpler)
        case Join(predicate=p) if p is not None:
            simpler = simplified(p)
            if is_true(simpler):
                return replace(node, predicate=None)
            return None if simpler == p else replace(node, predicate=simpler)
    return None
