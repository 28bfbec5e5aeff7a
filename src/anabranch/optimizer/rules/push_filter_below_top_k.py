"""Whole groups are left out before their first rows are found."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.filter import Filter
from anabranch.algebra.node import Node
from anabranch.algebra.top_k import TopK
from anabranch.optimizer.pushing import filtered, part


def push_filter_below_top_k(node: Node) -> Node | None:
    """Filter(TopK(x, k, per g), p) -> TopK(Filter(x, p), k, per g), p a function of the group."""
    match node:
        case Filter(input=TopK(input=x) as top, predicate=p):
            names = {key.is_column for _, key in top.partition_by}
            moving, staying = part(p, lambda c: c.columns <= names, same_rows=True)
            if moving:
                return filtered(replace(top, input=filtered(x, moving)), staying)
    return None
