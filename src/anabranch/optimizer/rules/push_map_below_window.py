"""What a window holds is computed before it."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.time_window import TimeWindow
from anabranch.optimizer.failing import any_may_fail
from anabranch.optimizer.pushing import mapped


def push_map_below_window(node: Node) -> Node | None:
    """Map(TimeWindow(x, w), f) -> TimeWindow(Map(x, f), w) (W3, W7).

    Not with the bounds of the window as columns: there is nothing below that f could take them
    from. A slide may leave rows out, so that f must not fail for them.
    """
    match node:
        case Map(input=TimeWindow(input=x, columns=None) as window, columns=f):
            if window.slide == 1 or not any_may_fail(each for _, each in f):
                return replace(window, input=mapped(node, x))
    return None
