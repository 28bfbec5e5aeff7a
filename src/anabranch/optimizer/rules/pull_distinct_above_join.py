"""Duplicates are removed once, after rows have met."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.optimizer.uniqueness import no_duplicates


def pull_distinct_above_join(node: Node) -> Node | None:
    """Join(Distinct(x), Distinct(y), p) -> Distinct(Join(x, y, p)) (R-10.6).

    For semi- and anti-joins only the left side counts (K15).
    """
    match node:
        case Join(kind="inner", left=x, right=y) if isinstance(x, Distinct) or isinstance(
            y, Distinct
        ):
            if no_duplicates(x) and no_duplicates(y):
                return Distinct(input=replace(node, left=_bare(x), right=_bare(y)))
        case Join(kind="semi" | "anti", left=Distinct(input=x)):
            return Distinct(input=replace(node, left=x))
    return None


def _bare(node: Node) -> Node:
    return node.input if isinstance(node, Distinct) else node
