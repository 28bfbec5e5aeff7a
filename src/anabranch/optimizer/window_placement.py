"""Where a window stands best when others could share it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anabranch.algebra.node import Node
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union


def push_windows_to_share(node: Node, exists: Callable[[Node], bool]) -> Node | None:
    """TimeWindow(Union(x, y), w) -> Union(TimeWindow(x, w), TimeWindow(y, w)) (W4).

    Only where one of these windows exists already, so that the plan needs it once.
    """
    match node:
        case TimeWindow(input=Union(inputs=inputs)):
            windows = tuple(replace(node, input=each) for each in inputs)
            if any(exists(each) for each in windows):
                return Union(inputs=windows)
    return None
