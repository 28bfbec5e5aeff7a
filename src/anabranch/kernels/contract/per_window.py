"""Rows that carry the window they belong to."""

from __future__ import annotations

from collections.abc import Collection

from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.time_window import TimeWindow


def has_window_end(node: Node, names: Collection[str | None]) -> bool:
    """Whether one of these columns is the end of the window that shows a row.

    Then rows that agree in them hold at the same time and end together.
    """
    match node:
        case TimeWindow(columns=(_, last)):
            return last in names
        case Filter():
            return has_window_end(node.input, names)
        case Map():
            kept = [part.is_column for name, part in node.columns if name in names]
            return has_window_end(node.input, [name for name in kept if name is not None])
    return False
