"""Duplicates are removed before rows meet."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.optimizer.uniqueness import no_duplicates


def push_distinct_below_join(node: Node) -> Node | None:
    """Distinct(Join(x, y, p)) -> Join(Distinct(x), Distinct(y), p) (R-10.6).

    For semi- and anti-joins only the left side counts (K15).
    """
    match node:
        case Distinct(input=Join(kind="inner", left=x, right=y) as join):
            return replace(join, left=_distinct(x), right=_distinct(y))
        case Distinct(input=Join(kind="semi" | "anti", left=x) as join):
            return replace(join, left=_distinct(x))
    return None


def _distinct(node: Node) -> Node:
    return node if no_duplicates(node) else Distinct(input=node)
