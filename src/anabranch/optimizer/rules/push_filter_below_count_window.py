"""Whole groups of a partitioned window are left out before it."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.filter import Filter
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.optimizer.pushing import filtered, part


def push_filter_below_count_window(node: Node) -> Node | None:
    """Filter(CountWindow(x, n, by g), p) -> CountWindow(Filter(x, p), n, by g) (W8).

    p must be a function of the group. Any other p would change which rows are the last n. For
    sessions alike.
    """
    match node:
        case Filter(input=(CountWindow(input=x) | SessionWindow(input=x)) as window, predicate=p):
            names = {key.is_column for _, key in window.partition_by}
            same = isinstance(window, SessionWindow) or window.slide == 1
            moving, staying = part(p, lambda c: c.columns <= names, same_rows=same)
            if moving:
                return filtered(replace(window, input=filtered(x, moving)), staying)
    return None
