"""Drawn streams in which revisions come before the rows of some batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.model.batch import EventBatch
from anabranch.model.elements import Adjust, Element, Insert, batch_of
from anabranch.model.logical import LogicalStream
from anabranch.model.revision import Revision, known_after
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.testing.strategies import batchings, streams


@dataclass(frozen=True)
class Round:
    """A batch, and the revisions that come with it."""

    rows: EventBatch
    revisions: tuple[Revision, ...] = ()


def meaning(rounds: Iterable[Round], known: int = 2**62) -> LogicalStream:
    """What rounds say, with the revisions up to one of them."""
    batches = [
        batch
        for each in rounds
        for batch in (*(r.changes for r in known_after(each.revisions, known)), each.rows)
    ]
    return LogicalStream.of_batches(batches)


def revision(number: int, elements: Sequence[Element], schema: pa.Schema) -> Revision:
    found = Revision.of(number, batch_of(elements, schema))
    assert found is not None
    return found


@st.composite
def revised_rounds(draw: st.DrawFn, schema: pa.Schema) -> list[Round]:
    """A legal stream; revisions withdraw parts of what holds, and insert what does not."""
    rounds: list[Round] = []
    number, stable = 0, int(BEGINNING)
    for batch in draw(batchings(draw(streams(schema)))):
        revisions: list[Revision] = []
        for _ in range(draw(st.integers(0, 2))):
            so_far = meaning([*rounds, Round(EventBatch.empty(schema), tuple(revisions))])
            elements = draw(_corrections(so_far, stable))
            found = Revision.of(number + 1, batch_of(elements, schema))
            if found is not None:
                number += 1
                revisions.append(found)
        rounds.append(Round(batch, tuple(revisions)))
        stable = max(stable, int(batch.stable))
    return rounds


@st.composite
def _corrections(draw: st.DrawFn, stream: LogicalStream, stable: int) -> list[Element]:
    events = [event for event in stream.events() if event[1] < stable]
    if not events:
        return []
    instants = {t for _, start, end in events for t in (start - 1, start, start + 1, end - 1, end)}
    instants = {t for t in instants | {stable} if BEGINNING < t <= min(stable, FOREVER - 1)}
    times = st.sampled_from(sorted(instants))
    found: list[Element] = []
    for payload, start, end in draw(st.lists(st.sampled_from(events), max_size=3, unique=True)):
        low, high = sorted((draw(times), draw(times)))
        low, high = max(low, start), min(high, end)
        if low < high:
            found.append(Adjust(payload, low, high, low))
    for payload, _, _ in draw(st.lists(st.sampled_from(events), max_size=2)):
        low, high = sorted((draw(times), draw(times)))
        if low < high:
            found.append(Insert(payload, low, high))
    return found


def at_or_after(stream: LogicalStream, stable: Time) -> LogicalStream:
    """What the stream says of the instants from one on."""
    events = [(p, max(start, int(stable)), end) for p, start, end in stream.events()]
    return LogicalStream.of([event for event in events if event[1] < event[2]])
