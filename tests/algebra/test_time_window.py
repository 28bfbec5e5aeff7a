"""Windows hold every occurrence for a while: against a count of single instants."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.source import Source
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.errors import StreamError
from anabranch.model.logical import LogicalStream, Payload
from anabranch.model.time import BEGINNING, FOREVER, Duration
from anabranch.testing import PhysicalStream, durations, points, streams

S = Source(name="S", schema=pa.schema([("e", pa.string())]))
Event = tuple[Payload, int, int]


def window(size: int, slide: int = 1) -> TimeWindow:
    return TimeWindow(input=S, size=Duration(size), slide=Duration(slide))


def lifetimes(*events: tuple[int, int]) -> LogicalStream:
    return LogicalStream.of([(("a",), start, end) for start, end in events])


EVENTS = st.lists(
    st.tuples(st.sampled_from([("a",), ("b",)]), st.integers(-20, 20), st.integers(1, 12)).map(
        lambda event: (event[0], event[1], event[1] + event[2])
    ),
    max_size=4,
)


@given(EVENTS, durations(30, unbounded=True), durations(30))
def test_a_window_counts_the_instants_it_covers(
    events: list[Event], size: Duration, slide: Duration
) -> None:
    held = window(size, slide).denote(LogicalStream.of(events))
    occurrences = [(payload, u) for payload, start, end in events for u in range(start, end)]
    for t in range(-60, 110):
        last = (t + 1) // slide * slide - 1
        first = last - size + 1
        expected = Counter(payload for payload, u in occurrences if first <= u <= last)
        assert held.snapshot(t) == expected, t


@given(streams(S.schema))
def test_a_window_of_one_instant_changes_nothing(stream: PhysicalStream) -> None:
    assert window(1).denote(stream.meaning()) == stream.meaning()


@given(points(S.schema), durations(20), durations(20))
def test_windows_over_windows_commute(
    stream: PhysicalStream, size: Duration, other: Duration
) -> None:
    rows = stream.meaning()
    one_way = window(size).denote(window(other).denote(rows))
    assert window(other).denote(window(size).denote(rows)) == one_way


@given(points(S.schema), durations(20))
def test_a_point_is_held_for_the_size(stream: PhysicalStream, size: Duration) -> None:
    rows = stream.meaning()
    expected = LogicalStream.of(
        (payload, t, min(t + size, FOREVER))
        for payload, start, end in rows.events()
        for t in range(start, end)
    )
    assert window(size).denote(rows) == expected


@given(points(S.schema), durations(20), durations(20))
def test_a_point_is_held_from_slide_to_slide(
    stream: PhysicalStream, size: Duration, slide: Duration
) -> None:
    rows = stream.meaning()
    # Kraemer 2007, 17.1.1: start' = ceil((t+1)/a)*a - 1, end' = floor((t+w+a)/a)*a - 1.
    expected = LogicalStream.of(
        (payload, start, end)
        for payload, t, until in rows.events()
        for u in range(t, until)
        for start, end in [
            (-(-(u + 1) // slide) * slide - 1, (u + size + slide) // slide * slide - 1)
        ]
        if start < FOREVER
    )
    assert window(size, slide).denote(rows) == expected


@given(EVENTS, durations(9))
def test_every_instant_of_a_lifetime_is_an_occurrence(events: list[Event], size: Duration) -> None:
    # The layers of a lifetime, as a second way to the same meaning.
    layers = [
        (payload, start + k - 1, end + size - k)
        for payload, start, end in events
        for k in range(1, min(size, end - start) + 1)
    ]
    assert window(size).denote(LogicalStream.of(events)) == LogicalStream.of(layers)


def test_a_lifetime_is_neither_replaced_nor_stretched() -> None:
    held = window(2).denote(lifetimes((2, 5)))
    assert held == lifetimes((2, 6), (3, 5))
    assert held != lifetimes((2, 4))
    assert held != lifetimes((2, 6))


def test_an_unbounded_window_forgets_nothing() -> None:
    held = window(UNBOUNDED).denote(lifetimes((2, 4), (10, 11)))
    assert [held.snapshot(t)[("a",)] for t in (1, 2, 3, 9, 10, FOREVER - 1)] == [0, 1, 2, 2, 3, 3]


def test_what_never_ends_fills_the_window() -> None:
    held = window(5).denote(lifetimes((3, FOREVER)))
    assert [held.snapshot(t)[("a",)] for t in (2, 3, 4, 7, 8, FOREVER - 1)] == [0, 1, 2, 5, 5, 5]


def test_windows_end_with_time_itself() -> None:
    late = lifetimes((FOREVER - 2, FOREVER - 1))
    assert window(5).denote(late) == lifetimes((FOREVER - 2, FOREVER))
    # FOREVER is 2^63 - 1, so the next slide instant after this one would be FOREVER.
    assert window(5, 4).denote(late) == LogicalStream()
    assert window(5, 4).denote(lifetimes((FOREVER - 8, FOREVER - 7))) == lifetimes(
        (FOREVER - 8, FOREVER - 4), (FOREVER - 4, FOREVER)
    )


def test_windows_begin_with_time_itself() -> None:
    early = BEGINNING + 1
    assert window(4).denote(lifetimes((early, early + 1))) == lifetimes((early, early + 4))


def test_a_window_much_longer_than_its_input_is_no_work() -> None:
    held = window(10**18).denote(lifetimes((0, 2)))
    assert held == lifetimes((0, 10**18 + 1), (1, 10**18))


@pytest.mark.parametrize(
    ("size", "lifetime"),
    [(UNBOUNDED, (3, FOREVER)), (10**9, (3, FOREVER)), (10**9, (3, 10**10))],
)
def test_a_meaning_with_too_many_steps_is_refused(size: int, lifetime: tuple[int, int]) -> None:
    with pytest.raises(StreamError, match="changes at too many instants"):
        window(size).denote(lifetimes(lifetime))
