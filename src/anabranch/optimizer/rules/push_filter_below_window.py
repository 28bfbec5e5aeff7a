"""What a filter leaves out need not be held."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.filter import Filter
from anabranch.algebra.node import Node
from anabranch.algebra.time_window import TimeWindow
from anabranch.optimizer.pushing import filtered, part


def push_filter_below_window(node: Node) -> Node | None:
    """Filter(TimeWindow(x, w), p) -> TimeWindow(Filter(x, p), w) (W2, W7).

    For conditions on the payload, not on the bounds of the window.
    """
    match node:
        case Filter(input=TimeWindow(input=x) as window, predicate=p):
            names = set(x.schema.names)
            moving, staying = part(p, lambda c: c.columns <= names, same_rows=window.slide == 1)
            if moving:
                return filtered(replace(window, input=filtered(x, moving)), staying)
    return None
