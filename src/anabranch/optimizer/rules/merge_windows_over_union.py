"""Equal windows on all branches of a union are one."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.node import Node
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union


def merge_windows_over_union(node: Node) -> Node | None:
    """Union(TimeWindow(x, w), TimeWindow(y, w)) -> TimeWindow(Union(x, y), w) (W4, W7).

    With the same size and slide, and only if all or none of the branches are points.
    """
    match node:
        case Union(inputs=(TimeWindow() as first, _, *_) as inputs):
            windows = [each for each in inputs if isinstance(each, TimeWindow)]
            points = {each.input.properties.only_points for each in windows}
            shapes = {(each.size, each.slide, each.columns) for each in windows}
            if len(windows) == len(inputs) and len(shapes) == 1 and len(points) == 1:
                return replace(first, input=Union(inputs=tuple(each.input for each in windows)))
    return None
