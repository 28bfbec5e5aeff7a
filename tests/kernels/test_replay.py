"""What an archive has of the past, as events to replay."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.node import Node
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.replay import past_events
from anabranch.model.batch import EventBatch
from anabranch.model.time import Time
from anabranch.testing import batchings, streams
from tests.kernels import plans as drawn

SCHEMA = pa.schema([("k", pa.int64())])


@st.composite
def pasts(draw: st.DrawFn) -> EventBatch:
    """Inserts, some of which are taken back or shortened by later moves."""
    times = st.integers(0, 12)
    inserts = draw(st.lists(st.tuples(st.integers(0, 3), times, times, times), max_size=10))
    rows: list[tuple[int, int, int, int]] = []
    for k, a, b, moved in inserts:
        start, end = min(a, b), max(a, b) + 1
        rows.append((k, start, start, end))
        if draw(st.booleans()):
            rows.append((k, start, end, max(start, moved)))
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    payload = pa.RecordBatch.from_arrays([pa.array(columns[0])], schema=SCHEMA)
    return EventBatch(payload, columns[1], columns[2], columns[3])


def snapshot(batch: EventBatch, at: int) -> Counter[int]:
    found: Counter[int] = Counter()
    for row, k in enumerate(batch.payload.column("k").to_pylist()):
        low, high = int(batch.end[row]), int(batch.new_end[row])
        found[k] += int(low <= at < high) - int(high <= at < low)
    return Counter({k: count for k, count in found.items() if count})


@given(pasts(), st.integers(0, 13), st.integers(0, 13))
def test_events_of_the_past_have_its_snapshots_and_are_inserts(
    rows: EventBatch, a: int, b: int
) -> None:
    first, last = Time(min(a, b)), Time(max(a, b))
    events = past_events(rows, first, last)
    assert [snapshot(events, t) for t in range(first, last)] == [
        snapshot(rows, t) for t in range(first, last)
    ]
    assert (events.end == events.start).all()


def test_payloads_that_were_never_moved_stay_as_they_came() -> None:
    payload = pa.RecordBatch.from_pydict({"k": [1, 2, 2]}, SCHEMA)
    start, end, new_end = (np.array(each) for each in ([0, 3, 3], [0, 3, 8], [20, 8, 3]))
    events = past_events(EventBatch(payload, start, end, new_end), Time(5), Time(6))
    assert events.payload.column("k").to_pylist() == [1]
    assert (int(events.start[0]), int(events.new_end[0])) == (0, 20)


@pytest.mark.usefixtures("eagerness")
@given(drawn.plans(), streams(drawn.SCHEMA).flatmap(batchings))
def test_the_last_step_tells_the_same_where_earlier_ones_were_only_remembered(
    node: Node, batches: list[EventBatch]
) -> None:
    usual, quiet = LocalRunner(node), LocalRunner(node)
    *earlier, last = batches
    for batch in earlier:
        usual.step({"S": batch})
        (nothing,) = quiet.step_all({"S": batch}, wanted="memory")
        assert not len(nothing)
    expected = usual.step({"S": last})
    (found,) = quiet.step_all({"S": last}, wanted="output")
    # As texts: NaN is NaN.
    assert str(found.payload.to_pylist()) == str(expected.payload.to_pylist())
    for one, other in zip(_times(found), _times(expected), strict=True):
        assert one.tolist() == other.tolist()
    assert found.stable == expected.stable


def _times(batch: EventBatch) -> tuple[np.ndarray, ...]:
    return batch.start, batch.end, batch.new_end
