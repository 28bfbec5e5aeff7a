"""What the first rows are mapped to is computed before they are found."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.top_k import TopK
from anabranch.expressions.rewriting import rename
from anabranch.optimizer.failing import any_may_fail
from anabranch.optimizer.ordering import columns_of, order_kept, renamed_keys
from anabranch.optimizer.pushing import mapped


def push_map_below_top_k(node: Node) -> Node | None:
    """Map(TopK(x, k), f) -> TopK(Map(x, f), k), if f keeps groups and the order of rows.

    So it does if it begins with the first columns of x and computes the others from these.
    """
    match node:
        case Map(input=TopK(input=x) as top, columns=f):
            groups = [key for _, key in top.partition_by]
            orders = [each for each, _, _ in top.order_by]
            names = order_kept(f, x, columns_of(*groups, *orders))
            if names is None or any_may_fail(each for _, each in f):
                return None
            below = mapped(node, x)
            return replace(
                top,
                input=below,
                partition_by=renamed_keys(top.partition_by, names, below),
                order_by=tuple(
                    (rename(each, names, below.schema), down, nulls)
                    for each, down, nulls in top.order_by
                ),
            )
    return None
