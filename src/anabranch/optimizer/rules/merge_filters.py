"""Two filters are one."""

from __future__ import annotations

from anabranch.algebra.filter import Filter
from anabranch.algebra.node import Node
from anabranch.expressions.rewriting import conjoin, conjuncts, rebind
from anabranch.optimizer.failing import may_fail


def merge_filters(node: Node) -> Node | None:
    """Filter(Filter(x, p), q) -> Filter(x, p AND q) (K1).

    Not where q may fail: p may be what keeps q from the rows it fails for.
    """
    match node:
        case Filter(input=Filter(input=x, predicate=p), predicate=q) if not may_fail(q):
            both = [*conjuncts(p), *conjuncts(rebind(q, p.schema))]
            return Filter(input=x, predicate=conjoin(both))
    return None
