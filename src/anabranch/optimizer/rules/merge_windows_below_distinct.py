"""Where duplicates do not count, a window over a window is one."""

from __future__ import annotations

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.node import Node
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.model.time import Duration


def merge_windows_below_distinct(node: Node) -> Node | None:
    """Distinct(TimeWindow(TimeWindow(x, v), w)) -> Distinct(TimeWindow(x, v + w - 1)) (W10).

    Without a slide. Where duplicates count this is wrong: an instant is held by both windows.
    """
    match node:
        case Distinct(
            input=TimeWindow(
                input=TimeWindow(input=x, size=v, slide=1, columns=None),
                size=w,
                slide=1,
                columns=None,
            )
        ):
            size = Duration(min(v + w - 1, UNBOUNDED))
            return Distinct(input=TimeWindow(input=x, size=size))
    return None
