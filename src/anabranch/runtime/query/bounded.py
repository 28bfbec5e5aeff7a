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


def refuse_unbounded(node: Node, *, allow: bool) -> None:
    """A window that forgets nothing, below an operator that remembers, needs endless memory.

    Raises:
        PlanError: There is one, and it was not allowed.
    """
    if allow:
        return
    for above in node.walk():
        if not above.remembers:
            continue
        for below in above.walk():
            if _forgets_nothing(below):
                raise PlanError(
                    "a window without bound below an operator that remembers",
                    where=f"{below.label} below {above.label}",
                    hint="its state would grow for ever: give the window a size, or start the "
                    "query with allow_unbounded=True",
                )
