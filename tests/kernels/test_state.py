"""What a trace holds after a promise: what may still matter, and nothing else."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.node import Node
from anabranch.algebra.time_window import TimeWindow
from anabranch.errors import EngineError, StreamError
from anabranch.kernels.contract import keys
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace import runs
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.testing import (
    KitStable,
    LocalRunner,
    PhysicalStream,
    adjust,
    batchings,
    insert,
    streams,
)
from tests.kernels.plans import SCHEMA, SOURCE, aggregate, aggregates


def events_after(batches: list[EventBatch]) -> Counter[tuple[str, int, int]]:
    """The multiset of events after all moves."""
    events: Counter[tuple[str, int, int]] = Counter()
    for batch in batches:
        for row, start, end, new_end in zip(
            batch.payload.to_pylist(), batch.start, batch.end, batch.new_end, strict=True
        ):
            payload = repr(row)
            if end > start:
                events[payload, start, end] -= 1
            if new_end > start:
                events[payload, start, new_end] += 1
    return +events


@given(aggregates(), streams(SCHEMA).flatmap(batchings))
def test_after_the_end_nothing_is_held(node: Node, batches: list[EventBatch]) -> None:
    runner = LocalRunner(node)
    for batch in batches:
        runner.step({"S": batch})
    last = EventBatch.empty(SCHEMA, FOREVER)
    runner.step({"S": last})
    infinite = any(end == FOREVER for _, _, end in events_after(batches))
    assert infinite or runner.state_rows() == 0


@given(streams(SCHEMA).flatmap(batchings))
def test_extremes_hold_just_the_events_that_are_not_fully_frozen(
    batches: list[EventBatch],
) -> None:
    runner = LocalRunner(aggregate(SOURCE, ("k",), "hi"))
    stable, came = BEGINNING, []
    for batch in batches:
        came.append(batch)
        stable = Time(max(stable, batch.stable))
        runner.step({"S": batch})
        held = sum(len(run) for run in runner.traces[0].runs.get("events", ()))
        alive = {
            (start, end, repr(row))
            for (row, start, end), _ in events_after(came).items()
            if end >= stable
        }
        assert held <= len(alive)


@given(streams(SCHEMA).flatmap(batchings))
def test_counts_hold_a_row_per_change_that_may_still_be_seen(batches: list[EventBatch]) -> None:
    runner = LocalRunner(aggregate(SOURCE, (), "n"))
    stable, came = BEGINNING, []
    for batch in batches:
        came.append(batch)
        stable = Time(max(stable, batch.stable))
        runner.step({"S": batch})
        rows = LogicalStream.of_batches(came)
        total = LogicalStream.of(((), start, end) for _, start, end in rows.events()).steps.get(
            (), ()
        )
        until = [*(time for time, _ in total[1:]), int(FOREVER)]
        needed = [step for step, end in zip(total, until, strict=False) if end >= stable]
        assert runner.state_rows() <= len(needed)


@pytest.mark.parametrize("small", [0, runs.MERGE_ALL_UP_TO_ROWS])
@pytest.mark.parametrize("by", [(), ("k",)])
def test_a_long_run_holds_a_bounded_number_of_rows(
    small: int, by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MERGE_ALL_UP_TO_ROWS", small)
    window = TimeWindow(input=SOURCE, size=Duration(50))
    runner = LocalRunner(aggregate(window, by, "n", "hi", "d"))
    held = []
    for number in range(300):
        start = np.arange(number * 10, number * 10 + 10)
        payload = pa.RecordBatch.from_pydict(
            {
                "k": [f"key {place % 3}" for place in start.tolist()],
                "v": start % 7,
                "x": start / 4,
            },
            schema=SCHEMA,
        )
        moves = EventBatch(payload, start, start, start + 1, Time(number * 10))
        runner.step({"S": moves})
        held.append(runner.state_rows())
    # About 60 points are alive at any time, seen by three traces.
    assert max(held[200:]) <= 1.5 * max(held[50:150])
    assert max(held) < 2_000


@given(st.lists(st.integers(1, 400), min_size=1, max_size=40))
def test_runs_grow_geometrically(sizes: list[int]) -> None:
    held: tuple[SortedRun, ...] = ()
    schema = pa.schema([("__id", pa.uint64()), ("__end", pa.int64())])

    def merge(parts: object, whole: bool) -> pa.RecordBatch:
        del whole
        assert isinstance(parts, tuple)
        return pa.concat_batches([part.rows for part in parts])

    total = 0
    for size in sizes:
        fresh = pa.RecordBatch.from_arrays(
            [pa.array(np.arange(size, dtype=np.uint64)), pa.array(np.arange(size))], schema=schema
        )
        held = runs.add_run(held, fresh, BEGINNING, merge, anchors=False)
        total += size
        assert sum(len(run) for run in held) == total
    assert len(held) <= 2 + 1.3 * np.log2(total)


def test_an_adjust_of_an_unknown_event_is_reported() -> None:
    runner = LocalRunner(aggregate(SOURCE, ("k",), "n"))
    stream = PhysicalStream(SCHEMA, (adjust("a", 1, 0.5, start=3, end=9, new_end=5),))
    with pytest.raises(StreamError, match="never inserted"):
        runner.step({"S": stream.batches()[0]})


@pytest.mark.parametrize(
    "node", [aggregate(SOURCE, ("k", "v"), "n"), Coalesce(input=SOURCE)], ids=["group", "coalesce"]
)
def test_two_keys_under_one_hash_are_noticed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def weak(columns: list[pa.Array], length: int, salt: int = 0) -> np.ndarray:
        return stable_hash(columns, length, salt) % np.uint64(2 if salt == 0 else 2**63)

    monkeypatch.setattr(keys, "stable_hash", weak)
    rows = [insert(key, number, 0.0, start=1, end=5) for key in "abc" for number in range(3)]
    stream = PhysicalStream(SCHEMA, (*rows, KitStable(Time(1))))
    with pytest.raises(EngineError, match="same 64-bit hash"):
        LocalRunner(node).step({"S": stream.batches()[0]})
