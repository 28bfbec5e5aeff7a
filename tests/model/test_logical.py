"""A stream means its snapshots."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream, Payload, freeze
from anabranch.model.payload import payloads, rows_of, sort_key
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.testing import PhysicalStream, payload_schemas, streams

Event = tuple[Payload, int, int]

LETTERS = st.sampled_from([("a",), ("b",), ("c",)])
SMALL_EVENTS = st.lists(
    st.tuples(LETTERS, st.integers(-5, 10), st.integers(0, 6)).map(
        lambda event: (event[0], event[1], event[1] + event[2])
    ),
    max_size=8,
)


def count_instants(events: list[Event]) -> Counter[tuple[Payload, int]]:
    return Counter((payload, t) for payload, start, end in events for t in range(start, end))


def a(*lifetimes: tuple[int, int]) -> LogicalStream:
    return LogicalStream.of([(("a",), start, end) for start, end in lifetimes])


@given(SMALL_EVENTS)
def test_a_snapshot_holds_every_lifetime_that_contains_the_instant(events: list[Event]) -> None:
    stream = LogicalStream.of(events)
    counted = count_instants(events)
    for instant in range(-7, 18):
        expected = Counter({p: n for (p, t), n in counted.items() if t == instant})
        assert stream.snapshot(instant) == expected


@given(SMALL_EVENTS, SMALL_EVENTS)
def test_streams_are_equal_exactly_when_all_snapshots_are(
    events: list[Event], others: list[Event]
) -> None:
    same = count_instants(events) == count_instants(others)
    assert (LogicalStream.of(events) == LogicalStream.of(others)) is same


@given(SMALL_EVENTS)
def test_order_of_arrival_and_cuts_do_not_count(events: list[Event]) -> None:
    pieces = [(payload, t, t + 1) for payload, start, end in events for t in range(start, end)]
    assert LogicalStream.of(reversed(pieces)) == LogicalStream.of(events)


def test_a_lifetime_is_half_open() -> None:
    stream = a((5, 9))
    assert [len(stream.snapshot(t)) for t in (4, 5, 8, 9)] == [0, 1, 1, 0]


def test_a_lifetime_without_end_holds_at_every_later_instant() -> None:
    stream = a((5, FOREVER))
    assert stream.snapshot(FOREVER - 1) == Counter({("a",): 1})
    assert stream.change_points() == [5]
    assert stream.events() == [(("a",), 5, FOREVER)]


def test_times_may_be_anywhere_in_64_bits() -> None:
    stream = a((BEGINNING + 1, FOREVER - 1), (FOREVER - 2, FOREVER))
    assert stream.snapshot(BEGINNING) == Counter()
    assert stream.snapshot(0) == Counter({("a",): 1})
    assert stream.snapshot(FOREVER - 2) == Counter({("a",): 2})
    assert stream.snapshot(FOREVER - 1) == Counter({("a",): 1})


def test_an_empty_lifetime_means_nothing() -> None:
    assert a((3, 3)) == LogicalStream()


@pytest.mark.parametrize(
    ("events", "canonical"),
    [
        ([(1, 3), (2, 4)], [(1, 4), (2, 3)]),
        ([(1, 3), (3, 5)], [(1, 5)]),
        ([(1, 5), (1, 5), (2, 3)], [(1, 5), (1, 5), (2, 3)]),
        ([(1, 2), (3, 4)], [(1, 2), (3, 4)]),
        ([(1, FOREVER), (2, 4), (3, FOREVER)], [(1, FOREVER), (2, FOREVER), (3, 4)]),
        ([], []),
    ],
)
def test_the_canonical_form_has_the_longest_lifetimes_per_level(
    events: list[tuple[int, int]], canonical: list[tuple[int, int]]
) -> None:
    found = a(*events).events()
    assert [(start, end) for _, start, end in sorted(found, key=lambda it: it[1:])] == canonical


@given(SMALL_EVENTS)
def test_the_canonical_form_means_the_same(events: list[Event]) -> None:
    stream = LogicalStream.of(events)
    assert LogicalStream.of(stream.events()) == stream
    assert stream.events() == LogicalStream.of(stream.events()).events()


@given(SMALL_EVENTS)
def test_segments_cover_what_is_there_and_neighbours_differ(events: list[Event]) -> None:
    stream = LogicalStream.of(events)
    segments = list(stream.segments())
    for (_, end, snapshot), (start, _, other) in pairwise(segments):
        assert end < start or (end == start and snapshot != other)
    for start, end, snapshot in segments:
        assert snapshot
        assert all(stream.snapshot(t) == snapshot for t in range(start, end))
    covered = {t for start, end, _ in segments for t in range(start, end)}
    assert covered == {t for _, t in count_instants(events)}


@given(SMALL_EVENTS, SMALL_EVENTS)
def test_union_where_map_and_group_work_instant_by_instant(
    events: list[Event], others: list[Event]
) -> None:
    stream, other = LogicalStream.of(events), LogicalStream.of(others)
    assert stream.union(other) == LogicalStream.of([*events, *others])
    assert stream.where(lambda p: p != ("b",)) == LogicalStream.of(
        event for event in events if event[0] != ("b",)
    )
    assert stream.map(lambda p: ("x",)) == LogicalStream.of((("x",), s, e) for _, s, e in events)
    parts = stream.group(lambda p: (p == ("b",),))
    assert LogicalStream().union(*parts.values()) == stream
    assert all((p == ("b",)) is key[0] for key, part in parts.items() for p in part.steps)


@given(SMALL_EVENTS, st.integers(-6, 12))
def test_before_keeps_earlier_snapshots_only(events: list[Event], instant: int) -> None:
    stream = LogicalStream.of(events)
    cut = stream.before(instant)
    for t in range(-7, 18):
        assert cut.snapshot(t) == (stream.snapshot(t) if t < instant else Counter())


@given(SMALL_EVENTS, SMALL_EVENTS, st.integers(-6, 20))
def test_agreement_names_the_first_differing_instant(
    events: list[Event], others: list[Event], before: int
) -> None:
    stream, other = LogicalStream.of(events), LogicalStream.of(others)
    differing = [t for t in range(-7, before) if stream.snapshot(t) != other.snapshot(t)]
    assert stream.agrees_with(other, Time(before)) == (differing[0] if differing else None)
    assert bool(stream.difference(other, before)) is bool(differing)


def test_floats_agree_to_the_last_bit() -> None:
    def of(*values: float) -> LogicalStream:
        return LogicalStream.of([((value, "a"), 1, 5) for value in values])

    assert of(0.3, 7.0).agrees_with(of(7.0, 0.3)) is None
    assert of(0.1 + 0.2, 7.0).agrees_with(of(7.0, 0.3)) == 1
    assert of(1e15).agrees_with(of(1e15 + 1)) == 1
    assert of(5e-324).agrees_with(of(0.0)) == 1


def test_floats_match_as_multisets_even_inside_structs() -> None:
    left = LogicalStream.of([(((0.3, None),), 0, 9), (((0.3, None),), 0, 9)])
    once = LogicalStream.of([(((0.3, None),), 0, 9)])
    assert left.agrees_with(once.union(once)) is None
    assert left.agrees_with(once) == 0
    assert left.agrees_with(LogicalStream.of([(((0.3, 1),), 0, 9)]).union(once)) == 0


def test_odd_floats_agree_with_themselves_only() -> None:
    def of(value: float) -> LogicalStream:
        return LogicalStream.of([((value, 0.1), 0, 1)])

    odd = [math.nan, math.inf, -math.inf, 0.0]
    for one in odd:
        for other in odd:
            same = repr(one) == repr(other)
            assert (of(one).agrees_with(of(other)) is None) is same
    assert of(-0.0) == of(0.0)


def test_a_difference_shows_instant_and_both_snapshots() -> None:
    left = LogicalStream.of([((1, "a"), 2, FOREVER), ((1, "a"), 2, 4)])
    right = LogicalStream.of([((1, "a"), 2, FOREVER), ((2, None), 3, 4)])
    assert left.difference(right) == (
        "the snapshots differ from instant 2 on\n"
        "  this stream:  (1, 'a') x2\n"
        "  the other:    (1, 'a')\n"
        "  only this:    (1, 'a')"
    )


def test_printing_shows_the_history() -> None:
    stream = LogicalStream.of([(("b",), 3, FOREVER), (("a",), 1, 4), (("a",), 2, 4)])
    assert repr(stream) == (
        "LogicalStream\n"
        "  [1, 2) ('a')\n"
        "  [2, 3) ('a') x2\n"
        "  [3, 4) ('a') x2, ('b')\n"
        "  [4, forever) ('b')"
    )
    assert repr(LogicalStream()) == "LogicalStream\n  empty at every instant"


def test_taking_away_what_is_not_there_is_refused() -> None:
    with pytest.raises(StreamError, match=r"a payload holds -1 times\n.*\('a'\) from instant 5"):
        LogicalStream.of([(("a",), 9, 5)])


def test_moves_of_ends_add_up() -> None:
    def batch(start: list[int], end: list[int], new_end: list[int]) -> EventBatch:
        rows = pa.RecordBatch.from_pydict({"k": ["a"] * len(start)})
        times = [np.array(column, np.int64) for column in (start, end, new_end)]
        return EventBatch(rows, times[0], times[1], times[2])

    moves = [
        batch([1, 2, 3], [1, 2, 3], [8, FOREVER, 5]),  # three inserts
        batch([1, 2], [8, FOREVER], [10, 6]),  # one grows, one gets an end
        batch([3, 1], [5, 10], [3, 10]),  # one is withdrawn, one does not change
    ]
    assert LogicalStream.of_batches(moves) == a((1, 10), (2, 6))
    assert LogicalStream.of_batches(reversed(moves)) == a((1, 10), (2, 6))


@given(streams(payload_schemas()))
def test_a_drawn_stream_means_its_events_whatever_the_batches(stream: PhysicalStream) -> None:
    whole = stream.meaning()
    assert LogicalStream.of_batches(stream.in_batches_of(1)) == whole
    assert LogicalStream.of_batches(stream.batches(0, 0)) == whole


@given(streams(payload_schemas()))
def test_payloads_survive_the_way_into_columns_and_back(stream: PhysicalStream) -> None:
    rows = list(stream.meaning().steps)
    assert payloads(rows_of(rows, stream.schema), len(rows)) == rows


def test_payloads_without_columns_are_counted() -> None:
    nothing = pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    assert payloads(nothing, 3) == [(), (), ()]


@pytest.mark.parametrize(
    ("value", "like"),
    [
        (math.nan, -math.nan),
        (-0.0, 0.0),
        ({"x": [math.nan, {"y": -0.0}]}, {"x": [float("nan"), {"y": 0.0}]}),
        (Decimal("1.50"), Decimal("1.5")),
        (None, None),
    ],
)
def test_values_sql_cannot_tell_apart_are_frozen_to_equal_ones(value: object, like: object) -> None:
    assert (freeze(value),) == (freeze(like),)
    assert hash((freeze(value),)) == hash((freeze(like),))


def test_there_is_one_zero() -> None:
    assert repr(freeze([-0.0, {"x": -0.0}])) == "(0.0, (0.0,))"


def test_null_is_not_zero_and_not_empty() -> None:
    assert len({freeze(value) for value in (None, 0, "", (), (None,))}) == 5


def test_all_values_have_an_order() -> None:
    values = [None, 1, math.nan, 2.5, -1, "b", "a", b"x", (1, None), (1, 2), Decimal(2), True]
    ordered = sorted(values, key=sort_key)
    assert ordered[0] is None
    assert ordered[1:7] == [-1, 1, True, Decimal(2), 2.5, ordered[6]]
    assert str(ordered[6]) == "nan"
