"""A stream reconstitutes to its events."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import StreamError
from anabranch.model import history
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Adjust, Element, Insert, Stable, batch_of, elements_of
from anabranch.model.history import History, snapshot_of
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER

SCHEMA = pa.schema([("a", pa.string()), ("n", pa.list_(pa.int64()))])
TIMES = [0, 1, 2, 3, 5, FOREVER]


@st.composite
def legal_streams(draw: st.DrawFn) -> list[Element]:
    elements: list[Element] = []
    live: list[tuple[str, int, int]] = []
    for _ in range(draw(st.integers(0, 20))):
        adjusts = draw(st.booleans())
        if live and adjusts:
            payload, start, end = live.pop(draw(st.integers(0, len(live) - 1)))
            new_end = draw(st.sampled_from([t for t in TIMES if t >= start]))
            elements.append(Adjust({"a": payload, "n": [1]}, start, end, new_end))
        else:
            payload, start = draw(st.sampled_from("ab")), draw(st.sampled_from(TIMES[:-1]))
            new_end = draw(st.sampled_from([t for t in TIMES if t > start]))
            elements.append(Insert({"a": payload, "n": [1]}, start, new_end))
        if new_end > start:
            live.append((payload, start, new_end))
    return elements


def batches(elements: list[Element], size: int) -> list[EventBatch]:
    return [batch_of(elements[i : i + size], SCHEMA) for i in range(0, len(elements), size)]


def reconstituted(elements: list[Element]) -> Counter[tuple[str, int, int]]:
    events: Counter[tuple[str, int, int]] = Counter()
    for element in elements:
        assert not isinstance(element, Stable)
        assert isinstance(element.payload, dict)
        payload, start = element.payload["a"], element.start
        if isinstance(element, Adjust):
            events[payload, start, element.end] -= 1
            if element.new_end > start:
                events[payload, start, element.new_end] += 1
        else:
            events[payload, start, element.end] += 1
    return +events


@given(legal_streams(), st.integers(1, 20), st.sampled_from([1, 2**18]))
def test_the_history_is_what_remains(elements: list[Element], size: int, enough: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "NET_FROM_ROWS", enough)
        found = History.of(batches(elements, size), SCHEMA)
    payloads = found.payload.column("a").to_pylist()
    events = list(zip(payloads, found.start.tolist(), found.end.tolist()))
    assert Counter(events) == reconstituted(elements)
    assert events == sorted(events, key=lambda event: (event[1], event[2], event[0]))


@given(legal_streams(), st.integers(1, 20), st.sampled_from([-1, *TIMES[:-1], 7]))
def test_snapshots_are_those_of_the_meaning(
    elements: list[Element], size: int, instant: int
) -> None:
    parts = batches(elements, size)
    expected = LogicalStream.of_batches(parts).snapshot(instant)
    for rows in (
        History.of(parts, SCHEMA).snapshot(instant),
        snapshot_of(parts, instant, SCHEMA),
    ):
        assert Counter(zip(rows.column("a").to_pylist(), [(1,)] * rows.num_rows)) == expected


def test_the_reference_streams_reconstitute_to_the_same_events() -> None:
    """Two replicas of the logical merge paper, section II."""
    schema = pa.schema([("p", pa.string())])
    one: list[Element] = [
        Insert({"p": "B"}, 8),
        Insert({"p": "A"}, 6, 12),
        Adjust({"p": "B"}, 8, FOREVER, 10),
        Stable(11),
        Stable(FOREVER),
    ]
    other: list[Element] = [
        Insert({"p": "A"}, 6, 7),
        Insert({"p": "B"}, 8, 15),
        Adjust({"p": "A"}, 6, 7, 12),
        Adjust({"p": "B"}, 8, 15, 10),
        Stable(FOREVER),
    ]
    for elements in (one, other):
        table = History.of([batch_of(elements, schema)]).table(final=True)
        assert table.to_pylist() == [
            {"p": "A", "start": 6, "end": 12, "final": True},
            {"p": "B", "start": 8, "end": 10, "final": True},
        ]


def test_an_event_is_final_when_it_ends_before_the_stable_point() -> None:
    elements: list[Element] = [
        Insert({"a": "x"}, 1, 4),
        Insert({"a": "y"}, 1, 5),
        Insert({"a": "z"}, 1),
        Stable(5),
    ]
    found = History.of([batch_of(elements, SCHEMA)])
    assert found.is_final.tolist() == [True, False, False]
    assert found.stable == 5


def test_an_adjust_of_nothing_is_refused() -> None:
    with pytest.raises(StreamError) as caught:
        History.of([batch_of([Adjust({"a": "x", "n": None}, 1, 9, 4)], SCHEMA)])
    assert str(caught.value) == (
        "an adjust names an event that does not exist\n"
        '  adjust {"a": "x", "n": null} from [1, 9) to [1, 4)\n'
        "  hint: 'anabranch check' finds the element that breaks a promise"
    )


def test_nothing_has_an_empty_history() -> None:
    found = History.of([], SCHEMA)
    assert (len(found), found.stable, found.payload.schema) == (0, BEGINNING, SCHEMA)
    assert found.snapshot(3).num_rows == 0


def test_elements_and_batches_are_two_views_of_one_thing() -> None:
    elements: list[Element] = [
        Insert({"a": "x", "n": [1, None]}, 1, 4),
        Adjust({"a": "x", "n": [1, None]}, 1, 4, 1),
        Stable(7),
    ]
    assert elements_of(batch_of(elements, SCHEMA)) == elements
    tuples: list[Element] = [Insert(("x", (1, None)), 1, 4)]
    assert elements_of(batch_of(tuples, SCHEMA)) == elements[:1]
    assert [str(element) for element in elements] == [
        'insert {"a": "x", "n": [1, null]} [1, 4)',
        'adjust {"a": "x", "n": [1, null]} from [1, 4) to [1, 1)',
        "stable 7",
    ]
