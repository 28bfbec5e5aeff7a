"""Netting keeps the change of a stream and leaves at most one move per event."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.batch import EventBatch
from anabranch.model.netting import net
from anabranch.model.time import FOREVER, Time
from anabranch.testing.arrow_values import arrow_rows, arrow_schemas

SCHEMA = pa.schema([("item", pa.string()), ("price", pa.float64())])
Move = tuple[dict[str, Any], int, int, int]


def batch(moves: list[Move], schema: pa.Schema = SCHEMA, stable: int = 0) -> EventBatch:
    payload = pa.RecordBatch.from_pylist([move[0] for move in moves], schema)
    start, end, new_end = (np.array([move[i] for move in moves], np.int64) for i in (1, 2, 3))
    return EventBatch(payload, start, end, new_end, Time(stable))


def identity(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, identity(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(identity(part) for part in value)
    return value


def rows(result: EventBatch) -> list[tuple[Any, int, int, int]]:
    payloads = result.payload.to_pylist()
    times = zip(result.start.tolist(), result.end.tolist(), result.new_end.tolist())
    return [(identity(payload), *time) for payload, time in zip(payloads, times)]


def changes(result: EventBatch) -> dict[tuple[Any, int], Counter[int]]:
    """How many more events of (payload, start) have each end, without the zeros."""
    counts: dict[tuple[Any, int], Counter[int]] = {}
    for payload, start, end, new_end in rows(result):
        ends = counts.setdefault((payload, start), Counter())
        if end != start:
            ends[end] -= 1
        if new_end != start:
            ends[new_end] += 1
    nonzero = {key: Counter({e: n for e, n in c.items() if n}) for key, c in counts.items()}
    return {key: ends for key, ends in nonzero.items() if ends}


@st.composite
def batches(draw: st.DrawFn) -> EventBatch:
    schema = draw(arrow_schemas(max_columns=2))
    pool = draw(st.lists(arrow_rows(schema), min_size=1, max_size=3))
    ends = st.integers(0, 3) | st.just(FOREVER - 4)
    moves = []
    for _ in range(draw(st.integers(0, 12))):
        start = draw(st.sampled_from([-5, 0, 1]))
        end, new_end = start + draw(ends), start + draw(ends)
        moves.append((draw(st.sampled_from(pool)), start, end, new_end))
    return batch(moves, schema, 7)


@given(batches())
def test_the_change_is_the_same(events: EventBatch) -> None:
    result = net(events)
    assert changes(result) == changes(events)
    assert result.stable == events.stable
    assert result.schema == events.schema


@given(batches())
def test_nothing_can_be_left_out(events: EventBatch) -> None:
    left: Counter[tuple[Any, int]] = Counter()
    for payload, start, end, new_end in rows(net(events)):
        assert end != new_end
        left[payload, start] += 1
    for key, ends in changes(events).items():
        removed = -sum(n for n in ends.values() if n < 0)
        added = sum(n for n in ends.values() if n > 0)
        assert left.pop(key) == max(removed, added)
    assert not left


@given(batches(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(events: EventBatch, random: Any) -> None:
    order = list(range(len(events)))
    random.shuffle(order)
    assert rows(net(events.take(np.array(order, np.int64)))) == rows(net(events))


@given(batches())
def test_netting_twice_changes_nothing(events: EventBatch) -> None:
    once = net(events)
    assert rows(net(once)) == rows(once)


@given(batches(), batches())
def test_batches_can_be_netted_in_steps(one: EventBatch, two: EventBatch) -> None:
    if one.schema == two.schema:
        steps = net(EventBatch.concat([net(one), net(two)]))
        assert changes(steps) == changes(net(EventBatch.concat([one, two])))


A = {"item": "a", "price": 1.0}


def test_an_insert_and_its_adjust_are_one_insert() -> None:
    assert rows(net(batch([(A, 5, 5, 9), (A, 5, 9, 7)]))) == [(identity(A), 5, 5, 7)]


def test_an_insert_and_its_withdrawal_are_nothing() -> None:
    assert len(net(batch([(A, 5, 5, 9), (A, 5, 9, 5)]))) == 0


def test_a_move_that_goes_nowhere_is_nothing() -> None:
    assert len(net(batch([(A, 5, 9, 9), (A, 5, 5, 5)]))) == 0


def test_a_chain_of_adjusts_is_one_adjust() -> None:
    assert rows(net(batch([(A, 5, 7, 9), (A, 5, 9, 8), (A, 5, 8, FOREVER)]))) == [
        (identity(A), 5, 7, FOREVER)
    ]


def test_duplicates_stay_two_events() -> None:
    result = net(batch([(A, 5, 5, 9), (A, 5, 5, 9), (A, 5, 9, 7)]))
    assert rows(result) == [(identity(A), 5, 5, 7), (identity(A), 5, 5, 9)]


def test_two_events_that_change_places_are_left_alone() -> None:
    assert len(net(batch([(A, 5, 7, 9), (A, 5, 9, 7)]))) == 0


def test_nan_meets_nan_and_minus_zero_meets_zero() -> None:
    def bid(price: float | None) -> dict[str, Any]:
        return {"item": None, "price": price}

    moves: list[Move] = [
        (bid(math.nan), 1, 1, 2),
        (bid(-math.nan), 1, 2, 1),
        (bid(0.0), 1, 1, 2),
        (bid(-0.0), 1, 2, 1),
        (bid(None), 1, 1, 2),
        (bid(None), 1, 2, 1),
    ]
    assert len(net(batch(moves))) == 0


def test_the_same_payload_at_another_start_is_another_event() -> None:
    result = net(batch([(A, 6, 6, 9), (A, 5, 5, 9)]))
    assert rows(result) == [(identity(A), 5, 5, 9), (identity(A), 6, 6, 9)]


def test_events_without_columns_are_counted() -> None:
    none = pa.schema([])
    payload = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    times = np.array([1, 1, 1]), np.array([1, 1, 4]), np.array([4, 4, 1])
    result = net(EventBatch(payload, *times))
    assert (result.start.tolist(), result.end.tolist(), result.new_end.tolist()) == ([1], [1], [4])
    assert len(net(EventBatch.empty(none))) == 0


def test_many_rows_are_netted_without_looking_at_each() -> None:
    count = 200_000
    start = np.arange(count) % 1000
    payload = pa.RecordBatch.from_pydict({"a": np.arange(count) // 2})
    events = EventBatch(payload, start - start % 2, start - start % 2, start + 5)
    moved = EventBatch(payload, events.start, events.new_end, events.start)
    assert len(net(EventBatch.concat([events, moved]))) == 0
    assert len(net(events)) == count
