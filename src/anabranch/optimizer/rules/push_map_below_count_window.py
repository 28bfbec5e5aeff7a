"""What the last rows are mapped to is computed before they are the last."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.expressions.rewriting import rename
from anabranch.optimizer.failing import any_may_fail
from anabranch.optimizer.ordering import columns_of, order_kept, renamed_keys
from anabranch.optimizer.pushing import mapped


def push_map_below_count_window(node: Node) -> Node | None:
    """Map(CountWindow(x, n, by g), f) -> CountWindow(Map(x, f), n, by g) (W5, W6).

    f must keep what the groups depend on, and the order of rows at one instant: it begins with
    the first columns of x and computes the others from these, or x has one row at a time.
    """
    match node:
        case Map(input=CountWindow(input=x) as window, columns=f):
            groups = [key for _, key in window.partition_by]
            names = order_kept(f, x, columns_of(*groups, *window.order_by))
            if names is None or any_may_fail(each for _, each in f):
                return None
            below = mapped(node, x)
            return replace(
                window,
                input=below,
                partition_by=renamed_keys(window.partition_by, names, below),
                order_by=tuple(rename(each, names, below.schema) for each in window.order_by),
            )
    return None
