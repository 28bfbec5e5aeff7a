"""Streams with revisions, drawn so that they are legal, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.model.batch import EventBatch
from anabranch.model.elements import Adjust, Element, Insert, Stable, batch_of
from anabranch.model.logical import LogicalStream
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, Time

SCHEMA = pa.schema([("a", pa.string())])
Part = EventBatch | Revision


@dataclass
class Drawn:
    """A stream while it is drawn: what came, and how often each payload holds at each instant."""

    parts: list[Part] = field(default_factory=list)
    elements: list[Element] = field(default_factory=list)
    events: list[tuple[str, int, int]] = field(default_factory=list)
    stable: int = int(BEGINNING)
    number: int = 0

    def close(self) -> None:
        if self.elements:
            self.parts.append(batch_of(self.elements, SCHEMA))
            self.elements = []


def meaning(parts: list[Part], known: int | None = None) -> LogicalStream:
    """Snapshots after the revisions up to a number: all moves added up."""
    return LogicalStream.of_batches(
        part.changes if isinstance(part, Revision) else part
        for part in parts
        if not isinstance(part, Revision) or known is None or part.number <= known
    )


def insert(payload: str, start: int, end: int) -> Insert:
    return Insert({"a": payload}, start, end)


def withdrawal(payload: str, start: int, end: int) -> Adjust:
    return Adjust({"a": payload}, start, end, start)


def revision(number: int, first: int, last: int, *changes: Element) -> Revision:
    return Revision(
        number=number, first=Time(first), last=Time(last), changes=batch_of(changes, SCHEMA)
    )


@st.composite
def revised_streams(draw: st.DrawFn, most: int = 14) -> list[Part]:
    """Legal streams: revisions withdraw only what holds, and say nothing twice."""
    stream = Drawn()
    for _ in range(draw(st.integers(0, most))):
        kind = draw(st.sampled_from(["insert", "insert", "adjust", "stable", "revise", "revise"]))
        low = max(stream.stable, 0)
        if kind == "insert":
            start = draw(st.integers(low, low + 4))
            event = (draw(st.sampled_from("ab")), start, start + draw(st.integers(1, 6)))
            stream.events.append(event)
            stream.elements.append(insert(*event))
        elif kind == "adjust":
            _adjust(draw, stream, low)
        elif kind == "stable":
            stream.stable = low + draw(st.integers(0, 4))
            stream.elements.append(Stable(stream.stable))
            stream.close()
        elif stream.stable > 0:
            _revise(draw, stream)
    stream.close()
    return stream.parts


def _adjust(draw: st.DrawFn, stream: Drawn, low: int) -> None:
    open_events = [event for event in stream.events if event[2] >= low]
    if not open_events:
        return
    event = draw(st.sampled_from(open_events))
    payload, start, end = event
    new_end = draw(st.integers(max(low, start + 1), max(low, start + 1) + 5))
    stream.events.remove(event)
    stream.events.append((payload, start, new_end))
    stream.elements.append(Adjust({"a": payload}, start, end, new_end))


def _revise(draw: st.DrawFn, stream: Drawn) -> None:
    stream.close()
    now = meaning(stream.parts)
    moves: list[Element] = []
    for payload in draw(st.sets(st.sampled_from("ab"), min_size=1)):
        first = draw(st.integers(0, stream.stable - 1))
        last = draw(st.integers(first + 1, stream.stable))
        held = min(now.snapshot(t)[(payload,)] for t in range(first, last))
        if held and draw(st.booleans()):
            moves += [withdrawal(payload, first, last)] * draw(st.integers(1, held))
        else:
            moves += [insert(payload, first, last)] * draw(st.integers(1, 2))
    first = min(move.start for move in moves if not isinstance(move, Stable))
    last = max(move.end for move in moves if not isinstance(move, Stable))
    stream.number += 1
    stream.parts.append(
        revision(stream.number, draw(st.integers(-1, first)), min(last + 1, stream.stable), *moves)
    )
