"""A filter moves below what changes lifetimes, payload by payload."""

from __future__ import annotations

from anabranch.algebra.filter import Filter
from anabranch.algebra.node import Node
from anabranch.optimizer.pushing import filtered, part


def push_filter_below_retiming(node: Node) -> Node | None:
    """Filter(op(x), p) -> op(Filter(x, p)), if op gives out(q, t) as a function of in(q, .).

    That is so for coalesce, split and cleanse (Kraemer 2007, lemma 12.1), and for all that
    changes the lifetimes of each payload on its own. p must not ask for a sign.
    """
    match node:
        case Filter(input=below, predicate=p) if (
            below.traits.same_snapshots or below.traits.retimes
        ):
            (x,) = below.inputs
            names = set(x.schema.names)
            same = below.traits.same_snapshots
            moving, staying = part(p, lambda c: c.columns <= names, same_rows=same)
            if moving:
                return filtered(below.with_inputs(filtered(x, moving)), staying)
    return None
