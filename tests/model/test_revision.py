"""Corrections of settled snapshots."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.batch import EventBatch
from anabranch.model.elements import Adjust, Element, Insert, batch_of, elements_of
from anabranch.model.revision import (
    Revision,
    clipped_changes,
    reversed_changes,
    snapshot_changes,
)
from anabranch.model.time import FOREVER, Time

SCHEMA = pa.schema([("k", pa.int64())])


def moves(*elements: Element) -> EventBatch:
    return batch_of(elements, SCHEMA)


@st.composite
def drawn_moves(draw: st.DrawFn) -> EventBatch:
    times = st.integers(0, 12) | st.just(int(FOREVER))
    rows = draw(st.lists(st.tuples(st.integers(0, 2), times, times), max_size=12))
    payload = pa.RecordBatch.from_pydict({"k": [k for k, _, _ in rows]}, SCHEMA)
    end = np.array([a for _, a, _ in rows], np.int64)
    new_end = np.array([b for _, _, b in rows], np.int64)
    return EventBatch(payload, np.minimum(end, new_end), end, new_end)


def effect(batch: EventBatch, at: int) -> Counter[int]:
    """How often each payload is added to a snapshot, or taken out of it."""
    found: Counter[int] = Counter()
    for row, k in enumerate(batch.payload.column("k").to_pylist()):
        low, high = int(batch.end[row]), int(batch.new_end[row])
        if low <= at < high:
            found[k] += 1
        elif high <= at < low:
            found[k] -= 1
    return Counter({k: count for k, count in found.items() if count})


INSTANTS = range(-1, 15)


@given(drawn_moves())
def test_changes_have_the_effect_of_the_moves_at_every_instant(batch: EventBatch) -> None:
    changes = snapshot_changes(batch)
    assert [effect(changes, t) for t in INSTANTS] == [effect(batch, t) for t in INSTANTS]


@given(drawn_moves(), st.randoms(use_true_random=False))
def test_changes_have_one_form(batch: EventBatch, random: object) -> None:
    order = np.arange(len(batch))
    random.shuffle(order)  # type: ignore[attr-defined]
    again = snapshot_changes(snapshot_changes(batch.take(order)))
    assert Counter(map(str, elements_of(snapshot_changes(batch)))) == Counter(
        map(str, elements_of(again))
    )


@given(drawn_moves())
def test_moves_and_what_undoes_them_are_no_change(batch: EventBatch) -> None:
    both = EventBatch.concat([batch, reversed_changes(batch)])
    assert not len(snapshot_changes(both))
    assert Revision.of(1, both) is None


@given(drawn_moves(), st.integers(0, 12), st.integers(0, 12))
def test_clipped_changes_say_the_same_inside(batch: EventBatch, a: int, b: int) -> None:
    first, last = Time(min(a, b)), Time(max(a, b))
    clipped = clipped_changes(snapshot_changes(batch), first, last)
    for t in INSTANTS:
        assert effect(clipped, t) == (effect(batch, t) if first <= t < last else Counter())


def test_a_revision_knows_the_time_it_changes() -> None:
    found = Revision.of(
        7,
        moves(
            Adjust({"k": 3}, 15, 40, 15),
            Insert({"k": 3}, 15, 20),
            Insert({"k": 4}, 20, 30),
            Insert({"k": 3}, 30, 40),
        ),
    )
    assert found is not None
    assert (found.number, found.first, found.last) == (7, 20, 30)
    assert elements_of(found.changes) == [
        Adjust({"k": 3}, 20, 30, 20),
        Insert({"k": 4}, 20, 30),
    ]
