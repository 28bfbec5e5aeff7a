"""Drawn streams are legal, and the edges really occur."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.testing import (
    KitStable,
    Move,
    PhysicalStream,
    batchings,
    durations,
    payload_schemas,
    points,
    schedules,
    streams,
    values,
    violations,
)


@given(streams(payload_schemas()))
def test_every_stream_is_legal(stream: PhysicalStream) -> None:
    assert list(violations(stream.elements)) == []
    stream.meaning()  # refuses to take away what is not there


@given(streams(payload_schemas()), st.data())
def test_every_batching_means_the_same(stream: PhysicalStream, data: st.DataObject) -> None:
    batches = data.draw(batchings(stream))
    assert sum(len(batch) for batch in batches) == len(moves(stream))
    assert LogicalStream.of_batches(batches) == stream.meaning()
    promises = [each.time for each in stream.elements if isinstance(each, KitStable)]
    assert max(batch.stable for batch in batches) == max(promises, default=BEGINNING)


@given(points())
def test_points_are_one_chronon_long(stream: PhysicalStream) -> None:
    for move in moves(stream):
        assert {move.end, move.new_end} <= {move.start, move.start + 1}


@given(streams(insert_only=True))
def test_streams_of_inserts_have_nothing_else(stream: PhysicalStream) -> None:
    assert all(move.end == move.start for move in moves(stream))


@given(streams(longest=5))
def test_no_lifetime_is_longer_than_asked_for(stream: PhysicalStream) -> None:
    assert all(move.new_end - move.start <= 5 for move in moves(stream))


@given(streams(max_size=4))
def test_streams_are_no_longer_than_asked_for(stream: PhysicalStream) -> None:
    assert len(stream.elements) <= 5  # one more for the last promise


@given(schedules(S=streams(), T=points()))
def test_schedules_keep_each_source_in_order(steps: list[dict[str, EventBatch]]) -> None:
    assert all(steps)
    for name in ("S", "T"):
        LogicalStream.of_batches(step[name] for step in steps if name in step)


@given(durations(7))
def test_durations_are_positive(duration: int) -> None:
    assert 1 <= duration <= 7


def moves(stream: PhysicalStream) -> list[Move]:
    return [each for each in stream.elements if isinstance(each, Move)]


def with_stable(stream: PhysicalStream) -> Iterator[tuple[Move, int]]:
    """Every move with the stable point it arrives after."""
    stable = int(BEGINNING)
    for each in stream.elements:
        if isinstance(each, KitStable):
            stable = max(stable, each.time)
        else:
            yield each, stable


def is_adjust(move: Move) -> bool:
    return move.start < move.end != move.new_end > move.start


def inserted_again(stream: PhysicalStream) -> bool:
    gone = {(m.payload, m.start) for m in moves(stream) if m.new_end == m.start}
    last = {(m.payload, m.start): m for m in moves(stream)}
    return any(last[event].end == last[event].start for event in gone)


def has_duplicates(stream: PhysicalStream) -> bool:
    inserts = Counter((m.payload, m.start, m.new_end) for m in moves(stream) if m.end == m.start)
    return any(count > 1 for count in inserts.values())


def is_disordered(stream: PhysicalStream) -> bool:
    starts = [m.start for m in moves(stream) if m.end == m.start]
    return starts != sorted(starts)


def promises(stream: PhysicalStream) -> list[int]:
    return [each.time for each in stream.elements if isinstance(each, KitStable)]


EDGES: dict[str, Callable[[PhysicalStream], bool]] = {
    "nothing at all": lambda s: not s.elements,
    "no promise": lambda s: len(moves(s)) > 5 and not promises(s),
    "promises only": lambda s: len(promises(s)) > 1 and not moves(s),
    "disorder": is_disordered,
    "ties": lambda s: any(n > 2 for n in Counter(m.start for m in moves(s)).values()),
    "duplicates": has_duplicates,
    "grow": lambda s: any(m.start < m.end < m.new_end for m in moves(s)),
    "shrink": lambda s: any(m.start < m.new_end < m.end for m in moves(s)),
    "an adjust that changes nothing": lambda s: any(m.start < m.end == m.new_end for m in moves(s)),
    "withdrawal": lambda s: any(m.new_end == m.start for m in moves(s)),
    "inserted again": inserted_again,
    "an end becomes infinite": lambda s: any(
        m.start < m.end < m.new_end == FOREVER for m in moves(s)
    ),
    "an infinite end becomes finite": lambda s: any(
        m.start < m.new_end < m.end == FOREVER for m in moves(s)
    ),
    "half frozen and adjusted": lambda s: any(
        is_adjust(m) and m.start < stable for m, stable in with_stable(s)
    ),
    "adjusted at the very stable point": lambda s: any(
        is_adjust(m) and m.start < stable == m.end for m, stable in with_stable(s)
    ),
    "shrunk to the very stable point": lambda s: any(
        is_adjust(m) and m.start < stable == m.new_end for m, stable in with_stable(s)
    ),
    "inserted at the very stable point": lambda s: any(
        m.start == m.end == stable for m, stable in with_stable(s)
    ),
    "withdrawn at the very stable point": lambda s: any(
        m.start == m.new_end == stable for m, stable in with_stable(s)
    ),
    "near the end of time": lambda s: any(m.start > FOREVER - 20 for m in moves(s)),
    "near the beginning of time": lambda s: any(m.start < BEGINNING + 20 for m in moves(s)),
    "negative": lambda s: any(-20 < m.start < 0 for m in moves(s)),
    "today": lambda s: any(10**15 < m.start < 10**16 for m in moves(s)),
    "promises repeated": lambda s: max(Counter(promises(s)).values(), default=0) > 1,
    "promises that go back": lambda s: promises(s) != sorted(promises(s)),
    "ends for good": lambda s: s.elements[-1:] == (KitStable(FOREVER),),
    "moves after a promise": lambda s: any(0 < stable < 100 for _, stable in with_stable(s)),
    "a null": lambda s: any(None in m.payload for m in moves(s)),
}


@pytest.mark.parametrize("edge", EDGES)
def test_the_edge_occurs(edge: str) -> None:
    found = find(
        streams(),
        EDGES[edge],
        settings=settings(
            max_examples=2_000,
            phases=[Phase.generate],
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert EDGES[edge](found)


@pytest.mark.parametrize("odd", ["nan", "inf", "-inf"])
def test_odd_floats_occur_and_can_be_left_out(odd: str) -> None:
    def is_odd(value: float | None) -> bool:
        return value is not None and str(value) == odd

    calm = settings(max_examples=500, phases=[Phase.generate], database=None)
    assert is_odd(find(values(pa.float64()), is_odd, settings=calm))
    with pytest.raises(NoSuchExample):
        find(values(pa.float64(), odd_floats=False), is_odd, settings=calm)


@given(values(pa.float64(), odd_floats=False))
def test_usual_floats_add_up_exactly(value: float | None) -> None:
    assert value is None or (math.isfinite(value) and value * 4 == int(value * 4))


@given(payload_schemas())
def test_column_names_are_unique(schema: pa.Schema) -> None:
    assert len(set(schema.names)) == len(schema.names) >= 1
