"""What order statistics keep, and what of it they look at."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from anabranch.algebra.time_window import TimeWindow
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.trace import ranked_events, ranked_values, runs
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, Duration, Time
from anabranch.testing import LocalRunner, batchings, streams
from tests.kernels.plans import SCHEMA, SOURCE, aggregate
from tests.kernels.test_state import events_after
from tests.kernels.test_top_k import top


@given(streams(SCHEMA, max_size=30).flatmap(batchings))
def test_just_the_events_that_are_not_fully_frozen_are_held(batches: list[EventBatch]) -> None:
    runner = LocalRunner(aggregate(SOURCE, ("k",), "med", "t"))
    last, came = BEGINNING, []
    for batch in batches:
        came.append(batch)
        last = Time(max(last, batch.stable))
        runner.step({"S": batch})
        alive = [event for event in events_after(came) if event[2] >= last]
        for place in (0, 1):
            held = runner.traces[0].runs.get(f"ranked{place}", ())
            assert sum(len(run) for run in held) <= len(alive)


def window_of(values: np.ndarray, start: int = 0) -> EventBatch:
    count = len(values)
    payload = pa.RecordBatch.from_pydict(
        {"k": ["a"] * count, "v": np.arange(count), "x": values}, schema=SCHEMA
    )
    begin = np.full(count, start)
    return EventBatch(payload, begin, begin, begin + 10, BEGINNING)


def test_a_late_row_reads_its_neighbours_only(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    reader = ranked_events._read

    def count(*arguments: Any) -> Any:
        found = reader(*arguments)
        read.append(found[0].num_rows)
        return found

    monkeypatch.setattr(ranked_events, "_read", count)
    values = np.random.default_rng(7).permutation(20_000) / 4
    runner = LocalRunner(aggregate(SOURCE, (), "med", "p", "pd"))
    for part in np.array_split(values, 5):
        runner.step({"S": window_of(part)})
    read.clear()
    for late in (-1.0, 9e9, 2500.1, -1.0):
        out = runner.step({"S": window_of(np.array([late]))})
        assert len(out) == 2
    # At most eight times as many as at first, of a handful of runs, for three percentiles.
    assert sum(read) < 4 * 3 * 6 * 8 * 32
    expected = np.concatenate([values, [-1.0, 9e9, 2500.1, -1.0]])
    found = out.payload.to_pylist()[1]
    assert found["med"] == np.median(expected)
    assert found["p"] == np.quantile(expected, 0.25)


def test_a_late_text_reads_its_neighbours_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without compiled loops, which read at most `STEP_ROWS` rows before they leave it to this."""
    read: list[int] = []
    reader = ranked_values._read_beside

    def count(*arguments: Any) -> Any:
        found = reader(*arguments)
        read.append(sum(map(len, found.runs)))
        return found

    monkeypatch.setattr(columns, "_is_loaded", lambda: False)
    monkeypatch.setattr(ranked_values, "_read_beside", count)
    chance = np.random.default_rng(7)
    texts = [f"customer {number:09}" for number in chance.permutation(20_000)]
    runner = LocalRunner(aggregate(SOURCE, (), "pds"))

    def window(some: list[str]) -> EventBatch:
        batch = window_of(np.zeros(len(some)))
        payload = batch.payload.set_column(0, "k", pa.array(some))
        return EventBatch(payload, batch.start, batch.end, batch.new_end, batch.stable)

    for part in np.array_split(texts, 5):
        found = runner.step({"S": window(part.tolist())}).payload.to_pylist()[-1]
    read.clear()
    for late in ("zebra", "", "customer 000014999+", "customer", "zoo", "zoom"):
        out = runner.step({"S": window([late])}).payload.to_pylist()
        found = out[-1] if out else found
        texts.append(late)
        assert found["pds"] == sorted(texts)[math.ceil(0.75 * len(texts)) - 1]
    # Of a handful of runs, eight times as many as at first at most.
    assert 0 < sum(read) < 6 * 6 * 8 * ranked_values.FIRST_VALUES


@pytest.mark.parametrize("small", [0, runs.MERGE_ALL_UP_TO_ROWS])
@pytest.mark.parametrize("what", ["values", "first rows"])
def test_a_long_run_holds_a_bounded_number_of_rows(
    what: str, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MERGE_ALL_UP_TO_ROWS", small)
    window = TimeWindow(input=SOURCE, size=Duration(50))
    by = ("k",)
    node = (
        aggregate(window, by, "med", "pds", "t", "sdx")
        if what == "values"
        else top(window, 3, ("x", True, False), by=by)
    )
    runner = LocalRunner(node)
    held = []
    for number in range(120):
        start = np.arange(number * 10, number * 10 + 10)
        payload = pa.RecordBatch.from_pydict(
            {
                "k": [f"key {place % 3}" for place in start.tolist()],
                "v": start % 7,
                "x": start * 7 % 11 / 4,
            },
            schema=SCHEMA,
        )
        runner.step({"S": EventBatch(payload, start, start, start + 1, Time(number * 10))})
        held.append(runner.state_rows())
    # About 60 points are alive at any time.
    assert max(held[90:]) <= 1.5 * max(held[30:60])
    assert max(held) < 2_000
