"""A window of one instant holds nothing."""

from __future__ import annotations

from anabranch.algebra.node import Node
from anabranch.algebra.time_window import TimeWindow


def drop_now_window(node: Node) -> Node | None:
    """TimeWindow(x, 1) -> x (W1; Kraemer 2007, remark 12.1).

    Not with a slide of more than one, which leaves out what lies between, nor where the bounds
    of the window are columns.
    """
    match node:
        case TimeWindow(input=x, size=1, slide=1, columns=None):
            return x
    return None
