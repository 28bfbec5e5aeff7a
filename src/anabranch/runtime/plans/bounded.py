"""Refuse queries whose state would grow for ever."""

from __future__ import annotations

from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.node import Node
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.errors import PlanError


def _forgets_nothing(node: Node) -> bool:
    match node:
        case TimeWindow(size=size) | CountWindow(rows=size):
            return size == UNBOUNDED
    return False


def find_unbounded(node: Node) -> PlanError | None:
    """A window that forgets nothing, below an operator that remembers, needs endless memory.

    Gives the refusal of a plan that has one.
    """
    for above in node.walk():
        if not above.remembers:
            continue
        for below in above.walk():
            if _forgets_nothing(below):
                return PlanError(
                    "an unbounded window below an operator that keeps state",
                    where=f"{below.label} below {above.label}",
                    hint="its state would grow without bound: give the window a size, or start the "
                    "query with allow_unbounded=True",
                )
    return None
