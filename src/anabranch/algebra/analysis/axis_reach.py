"""Which windows of the time axis a change is seen in.

Modules see events, so a change of events counts here: one inside a span leaves all pieces of
events before it and behind it as they are. A module that sees only values, or only what is left of
a lifetime in its window, follows from these pieces in the window. One that sees where an event
began looks back before its window; one that sees where it ends looks ahead.

Windows that the stable point has not passed yet come and go with the last event of their group
(those of rows that never end, and empty ones). So spans hold before the stable point of the output.
"""

from __future__ import annotations

from anabranch.algebra.analysis.spans import EVERYTHING, Span, span
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.split import Split
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import Hopping, Snapshot
from anabranch.algebra.modules.event_identity import keeps_events
from anabranch.algebra.node import Node
from anabranch.algebra.time_window import TimeWindow
from anabranch.model.time import BEGINNING, FOREVER


def windows_reached(node: ApplyOperator, over: Span) -> Span:
    """The results that a change of the input can change."""
    around = _around(node, over)
    first = BEGINNING if _looks_ahead(node) else around[0]
    last = FOREVER if _looks_back(node) else around[1]
    return span(first, last)


def windows_needed(node: ApplyOperator, over: Span) -> Span:
    """The input that decides the results in a span."""
    around = _around(node, over)
    first = BEGINNING if _looks_back(node) else around[0]
    last = FOREVER if _looks_ahead(node) else around[1]
    return span(first, last)


def _around(node: ApplyOperator, over: Span) -> tuple[int, int]:
    """From the start of the first window that ends in the span or later, to the end of the last.

    With gaps between windows, the span may lie in one: then the end comes before the start.
    """
    match node.window:
        case Hopping() as window if _has_local_events(node.input):
            numbers = window.numbers(*over)
            start = numbers.start * window.hop + window.offset
            end = (numbers.stop - 1) * window.hop + window.offset + window.size
            return (
                over[0] if over[0] == BEGINNING else start,
                over[1] if over[1] == FOREVER else end,
            )
        case Snapshot() if _has_local_events(node.input) and not _shows_bounds(node):
            # All events of such a window hold in all of it: it says of each instant the same.
            return over
    return EVERYTHING


def _shows_bounds(node: ApplyOperator) -> bool:
    """Whether results depend on where a window begins and ends."""
    return node.columns is not None or node.time_sensitive or node.timestamps != "align"


def _looks_back(node: ApplyOperator) -> bool:
    """Whether a result may depend on what was before its window, or hold after it."""
    if node.empty or node.timestamps in ("unchanged", "time_bound"):
        return True
    if node.input.properties.only_points:
        return False
    in_order = any("ordered" in call.operator.properties for call in node.calls)
    return in_order or (node.time_sensitive and node.clip in ("none", "right"))


def _looks_ahead(node: ApplyOperator) -> bool:
    """Whether a result may depend on what comes after its window."""
    return node.sees_ends and not node.input.properties.only_points


def _has_local_events(node: Node) -> bool:
    """Whether the pieces of events in a stretch of time follow from what the input is there.

    Not so where lifetimes are cut every so often, counted from their own start, and a start may
    lie anywhere: below a join with a relation.
    """
    if node.properties.only_points or node.makes_events or not keeps_events(node):
        return True
    match node:
        case Split():
            return _is_on_grid(node.input)
        case Coalesce():
            return True
    return node.traits.events == "new" or all(map(_has_local_events, node.inputs))


def _is_on_grid(node: Node) -> bool:
    """Whether a stream changes at the slides of one time window only."""
    if isinstance(node, TimeWindow):
        return True
    inner = node.traits.changes_with_inputs and node.inputs
    return bool(inner) and all(map(_is_on_grid, node.inputs))
