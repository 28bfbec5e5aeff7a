"""Which operators keep events, and which only snapshots: windows of the time axis see events.

A stream means its snapshots, and how they are cut into lifetimes does not count. Windows of the
time axis are the exception: four results 7, 7, 7, 9 of four windows are four events with the mean
7.5, although their snapshots are those of two events, [0, 30) with 7 and [30, 40) with 9. So below
such windows it must be defined, by the plan alone, what the events are.
"""

from __future__ import annotations

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.split import Split
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.model.time import Duration


def with_events(node: Node) -> Node:
    """The same stream, whose events are defined by the plan and the events of its sources.

    - What keeps events is taken as it is.
    - What is computed from windows with a slide is cut at the slides: one event per result.
    - All else is snapshots only, and counts in its longest lifetimes.
    """
    if keeps_events(node):
        return node
    slide = slide_of(node)
    return Coalesce(input=node) if slide is None else Split(input=node, length=slide)


def keeps_events(node: Node) -> bool:
    """Whether the events that leave an operator are defined, not only its snapshots.

    They are where lifetimes can be cut in one way only (points), where every event of the input
    becomes at most one, or where every window has rows of its own: windows of the time axis, and
    groups by the bounds of a window.
    """
    if node.properties.only_points or node.makes_events:
        return True
    match node:
        case Source() | Coalesce():
            return True
        case TimeWindow() | CountWindow() | SessionWindow():
            return node.input.properties.only_points
        case Aggregation(group_by=columns):
            return _by_window(node.input, {part.is_column for _, part in columns})
        case Split(length=length):
            return slide_of(node.input) == length
    return node.traits.events != "new" and all(map(keeps_events, node.inputs))


def slide_of(node: Node) -> Duration | None:
    """The slide at which alone a stream changes, if it is computed from windows with that slide."""
    match node:
        case TimeWindow(input=below, size=size, slide=slide):
            bounded = below.properties.only_points and size < UNBOUNDED
            return slide if bounded and slide > 1 else None
        case Join(kind="inner" | "left" | "semi" | "anti", right=Source(relation=True)):
            return slide_of(node.left)
    if not node.traits.changes_with_inputs:
        return None
    slides = {slide_of(each) for each in node.inputs}
    return slides.pop() if len(slides) == 1 else None


def _by_window(node: Node, names: set[str | None]) -> bool:
    """Whether rows that agree in these columns are in one window, and hold as long as it."""
    match node:
        case TimeWindow(columns=(first, last)):
            return first in names or last in names
        case SessionWindow(columns=(first, last)):
            return first in names and last in names
        case Filter():
            return _by_window(node.input, names)
        case Map():
            kept = {part.is_column for name, part in node.columns if name in names}
            return _by_window(node.input, kept)
    return False


def events_in_words(node: Node) -> str:
    """What the events are that windows of the time axis see of an input, for `explain`."""
    match node:
        case Split(input=below, length=length) if slide_of(below) == length:
            slide = clock_of(below).format_duration(length)
            return f"events are the results of windows: one per row and slide of {slide}"
        case Coalesce(input=below) if not keeps_events(below):
            return (
                f"events are not defined by {below.label}, only snapshots: equal rows that follow "
                "each other count once, in their longest lifetime; for one event per result give "
                "its window a SLIDE, group by window_start and window_end, or use ISTREAM"
            )
        case Coalesce():
            return "events are rows in their longest lifetimes"
    return "events are kept: one per row of the input"
