"""The reach of one operator: which snapshots of its input decide which snapshots of its output.

What works snapshot by snapshot says so in its traits, and needs nothing here. An operator that is
not known reaches everywhere, which is always right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.analysis.axis_reach import windows_needed, windows_reached
from anabranch.algebra.analysis.spans import EVERYTHING, NOTHING, Span, moved, span
from anabranch.algebra.clip import Clip
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.merge import Merge
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.shift import Shift
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.weighted_window import WeightedWindow
from anabranch.model.time import BEGINNING, FOREVER

UNBOUNDED_NODES: Final[Mapping[type[Node], str]] = {
    SessionWindow: "a point can join two sessions, each as long as it likes",
}
"""Operators of which every snapshot may depend on every other one, and why."""


def keeps_instants(node: Node) -> bool:
    """Whether a snapshot of the output follows from those of the inputs at the same instant."""
    match node:
        case Clip() | ToStream(kind="snapshots") | TimeWindow(size=1, slide=1):
            return True
        case AlterLifetime(extend=extend, at_most=at_most):
            return extend == 0 or at_most == UNBOUNDED
    return node.traits.snapshot_reducible or node.traits.same_snapshots


def reached(node: Node, over: Span) -> Span:
    """The snapshots of the output that a change of inputs inside a span can change."""
    first, last = over
    if over == NOTHING:
        return NOTHING
    match node:
        case Clip():
            return span(max(first, node.first), min(last, node.last))
        case TimeWindow():
            return _window_reached(node, over)
        case WeightedWindow():
            return reached(node.sampled, reached(node.window, over))
        case Granularity(granule=granule):
            # Seen if a sample is taken inside of it, until the next sample.
            low = first if first == BEGINNING else _up(first, granule)
            return span(low, last if last == FOREVER else _up(last, granule))
        case Shift(by=by):
            return moved(over, first=by, last=by)
        case ToStream() | ToSigned() | AlterLifetime() if not keeps_instants(node):
            ahead, behind = _neighbours(node)
            return moved(over, first=-ahead, last=behind)
        case CountWindow() | FromSigned():
            # They count from the beginning of time.
            return span(first, FOREVER)
        case ApplyOperator():
            return windows_reached(node, over)
        case Merge():
            return over
    return over if keeps_instants(node) else EVERYTHING


def taken(node: Node, over: Span) -> Span:
    """The snapshots of each input that decide the snapshots of the output inside a span."""
    first, last = over
    if over == NOTHING:
        return NOTHING
    match node:
        case Clip():
            return span(max(first, node.first), min(last, node.last))
        case TimeWindow():
            return _window_taken(node, over)
        case WeightedWindow():
            return taken(node.window, taken(node.sampled, over))
        case Granularity(granule=granule):
            low = first if first == BEGINNING else _down(first, granule)
            return span(low, last if last == FOREVER else _down(last - 1, granule) + 1)
        case Shift(by=by):
            # What never ends does so when it is moved to earlier times, too: the last instant
            # decides what holds in the gap.
            low = first if first == BEGINNING else min(first - by, FOREVER - 1)
            return span(low, last if last == FOREVER else last - by)
        case ToStream() | ToSigned() | AlterLifetime() if not keeps_instants(node):
            ahead, behind = _neighbours(node)
            return moved(over, first=-behind, last=ahead)
        case CountWindow() | FromSigned():
            return span(BEGINNING, last)
        case ApplyOperator():
            return windows_needed(node, over)
        case Merge():
            return over
    return over if keeps_instants(node) else EVERYTHING


def _neighbours(node: ToStream | ToSigned | AlterLifetime) -> tuple[int, int]:
    """How far ahead of an instant its snapshot looks, and how far back.

    A lifetime begins at t if there is less at t - 1, and ends there if there was more. One of
    `duration` d that holds at t began in (t - d, t], which the snapshots of [t - d, t] show. The
    same stretch shows what ended in (t - d, t], and what began less than d ago and did not end.
    """
    match node:
        case ToStream():
            return (1, 0) if node.looks_ahead else (0, 1)
        case ToSigned():
            return (0, 1)
    span_of = next(d for d in (node.duration, node.extend, node.at_most) if d is not None)
    return (0, 2**64 if span_of == UNBOUNDED else int(span_of))


def _window_reached(node: TimeWindow, over: Span) -> Span:
    """An occurrence at u is shown from the first slide instant from u on to that from u + size."""
    first, last = over
    low = first if first == BEGINNING else _slide_up(first, node.slide)
    if last == FOREVER or node.size == UNBOUNDED:
        return span(low, FOREVER)
    return span(low, _slide_up(last - 1 + node.size, node.slide))


def _window_taken(node: TimeWindow, over: Span) -> Span:
    """With h the last slide instant up to t: what occurs in (h - size, h]."""
    first, last = over
    high = last if last == FOREVER else _down(last, node.slide)
    if first == BEGINNING or node.size == UNBOUNDED:
        return span(BEGINNING, high)
    return span(_down(first + 1, node.slide) - node.size, high)


def _up(instant: int, grid: int) -> int:
    return -(-instant // grid) * grid


def _down(instant: int, grid: int) -> int:
    return instant // grid * grid


def _slide_up(instant: int, slide: int) -> int:
    """The first slide instant at or after an instant: slides show what ends with them."""
    return _up(instant + 1, slide) - 1
