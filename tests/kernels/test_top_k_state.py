"""What a top-k keeps, what it looks at, and what it sends."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from anabranch.errors import EngineError, StreamError
from anabranch.kernels.contract import keys
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.plan.explain import explain_stages
from anabranch.kernels.top_k import top_k
from anabranch.model.batch import EventBatch
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.testing import (
    LocalRunner,
    Move,
    PhysicalStream,
    adjust,
    assert_agrees,
    batchings,
    elements_of,
    insert,
    stable,
    streams,
)
from tests.kernels.plans import SCHEMA, SOURCE
from tests.kernels.test_state import events_after
from tests.kernels.test_top_k import INSERTS, top

DEAREST = ("x", True, False)


def rows_of(runner: LocalRunner, name: str) -> int:
    return sum(len(run) for run in runner.traces[0].runs.get(name, ()))


@given(streams(SCHEMA, max_size=30).flatmap(batchings))
def test_just_the_events_that_are_not_fully_frozen_are_held(batches: list[EventBatch]) -> None:
    runner = LocalRunner(top(SOURCE, 2, DEAREST, by=("k",)))
    last, came = BEGINNING, []
    for batch in batches:
        came.append(batch)
        last = Time(max(last, batch.stable))
        runner.step({"S": batch})
        alive = [event for event in events_after(came) if event[2] >= last]
        assert rows_of(runner, "events") <= len(alive)
        # What begins and what ends, for every row among the first.
        assert rows_of(runner, "best") <= 2 * len(alive)
    runner.step({"S": EventBatch.empty(SCHEMA, FOREVER)})
    infinite = any(end == FOREVER for _, _, end in events_after(batches))
    assert infinite or runner.state_rows() == 0


def window_of(values: np.ndarray) -> EventBatch:
    count = len(values)
    payload = pa.RecordBatch.from_pydict(
        {"k": ["a"] * count, "v": np.arange(count), "x": values}, schema=SCHEMA
    )
    begin = np.zeros(count, np.int64)
    return EventBatch(payload, begin, begin, begin + 10, BEGINNING)


def test_without_corrections_only_the_first_rows_are_kept() -> None:
    values = np.random.default_rng(7).permutation(20_000) / 4
    runner = LocalRunner(top(INSERTS, 3, DEAREST))
    left = [runner.step({"S": window_of(part)}) for part in np.array_split(values, 5)]
    assert {name: rows_of(runner, name) for name in runner.traces[0].runs} == {"best": 3}
    assert sum(len(batch) for batch in left) < 30
    assert len(runner.step({"S": window_of(np.array([1.0, 2.0]))})) == 0


def test_a_row_behind_the_others_is_only_put_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    runner = LocalRunner(top(SOURCE, 3, DEAREST))
    runner.step({"S": window_of(np.arange(100.0))})
    monkeypatch.setattr(top_k, "events_over", never)
    late = window_of(np.array([5.5]))
    assert len(runner.step({"S": late})) == 0
    gone = EventBatch(late.payload, late.start, late.new_end, late.start, BEGINNING)
    assert len(runner.step({"S": gone})) == 0
    # A better one is compared with the first ones only.
    assert len(runner.step({"S": window_of(np.array([99.5]))})) == 2


ROWS = [("a", 1, 5.0), ("b", 2, 7.0), ("c", 3, 6.0)]


def test_what_enters_and_what_leaves_is_sent() -> None:
    stream = PhysicalStream(
        SCHEMA,
        (
            insert(*ROWS[0], start=1, end=9),
            insert(*ROWS[1], start=3, end=6),
            stable(1),
            insert(*ROWS[2], start=4, end=8),
            stable(2),
            adjust(*ROWS[1], start=3, end=6, new_end=5),
            stable(4),
            adjust(*ROWS[2], start=4, end=8, new_end=4),
            stable(4),
        ),
    )
    left = assert_agrees(top(SOURCE, 1, DEAREST), stream.batches(3, 5, 7))
    a, b, c = ROWS
    assert [sorted(map(repr, elements_of(batch))) for batch in left] == [
        sorted(map(repr, moves))
        for moves in (
            [Move(a, 1, 1, 3), Move(b, 3, 3, 6), Move(a, 6, 6, 9)],
            [Move(c, 6, 6, 8), Move(a, 6, 9, 6), Move(a, 8, 8, 9)],
            [Move(b, 3, 6, 5), Move(c, 6, 8, 6), Move(c, 5, 5, 8)],
            [Move(c, 5, 8, 5), Move(a, 5, 5, 9), Move(a, 8, 9, 8)],
        )
    ]


def test_a_very_large_k_keeps_everything() -> None:
    batches = [window_of(np.arange(5.0)), window_of(np.arange(3.0))]
    left = assert_agrees(top(SOURCE, 10**15, DEAREST), batches)
    assert [len(batch) for batch in left] == [5, 3]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_copies_count(size: int) -> None:
    a, b = ROWS[0], ROWS[1]
    stream = PhysicalStream(
        SCHEMA,
        (
            *(insert(*b, start=start, end=9) for start in (1, 2, 2)),
            insert(*a, start=0, end=9),
            adjust(*b, start=2, end=9, new_end=4),
            adjust(*b, start=2, end=9, new_end=6),
            stable(3),
        ),
    )
    assert_agrees(top(SOURCE, 2, DEAREST), stream, batch_size=size)


def test_what_was_never_there_cannot_go() -> None:
    gone = PhysicalStream(SCHEMA, (adjust("a", 1, 0.5, start=3, end=9, new_end=5),))
    with pytest.raises(StreamError, match="never inserted"):
        LocalRunner(top(SOURCE, 1, DEAREST)).step({"S": gone.batches()[0]})


def test_a_stream_that_is_never_corrected_must_not_be() -> None:
    runner = LocalRunner(top(INSERTS, 1, DEAREST))
    stream = PhysicalStream(
        SCHEMA,
        (insert("a", 1, 0.5, start=3, end=9), adjust("a", 1, 0.5, start=3, end=9, new_end=5)),
    )
    for batch in stream.batches(1)[:1]:
        runner.step({"S": batch})
    with pytest.raises(StreamError, match="insert-only"):
        runner.step({"S": stream.batches(1)[1]})


def test_two_groups_under_one_hash_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def weak(columns: list[pa.Array], length: int, salt: int = 0) -> np.ndarray:
        return stable_hash(columns, length, salt) % np.uint64(2 if salt == 0 else 2**63)

    rows = [insert(key, number, 0.0, start=1, end=5) for key in "abc" for number in range(3)]
    runner = LocalRunner(top(SOURCE, 1, DEAREST, by=("k", "v")))
    monkeypatch.setattr(keys, "stable_hash", weak)
    with pytest.raises(EngineError, match="same 64-bit hash"):
        runner.step({"S": PhysicalStream(SCHEMA, tuple(rows)).batches()[0]})


def test_stages_say_how_it_is_done() -> None:
    shown = explain_stages(compile_plan(top(SOURCE, 3, DEAREST, by=("k",)))).splitlines()
    assert shown == [
        "Stage 0-top-k (by k)",
        "  reads source:S",
        "  TopK 3 by x DESC per k [keeps events]",
    ]
    assert "[insert-only]" in explain_stages(compile_plan(top(INSERTS, 3, DEAREST)))
