"""A filter over pairs becomes the join's predicate."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.expressions.rewriting import conjoin, conjuncts, rebind
from anabranch.optimizer.pushing import filtered, part


def push_filter_into_join(node: Node) -> Node | None:
    """Filter(Join(x, y, q), p) -> Join(x, y, q AND p), inner joins only (K3)."""
    match node:
        case Filter(input=Join(kind="inner") as join, predicate=p):
            moving, staying = part(p, lambda _: True, same_rows=False)
            if moving:
                conditions = [] if join.predicate is None else list(conjuncts(join.predicate))
                both = conjoin([*conditions, *(rebind(each, join.both) for each in moving)])
                return filtered(replace(join, predicate=both), staying)
    return None
