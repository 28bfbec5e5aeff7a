"""Small batches are surveyed instant by instant, large ones swept: both find the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.top_k import TopK
from anabranch.errors import StreamError
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.top_k import top_k
from anabranch.kernels.top_k.lifetimes import Lifetimes, move_lifetimes
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.testing import (
    LocalRunner,
    PhysicalStream,
    adjust,
    batchings,
    elements_of,
    insert,
    streams,
)
from tests.kernels.busy import busy_streams
from tests.kernels.plans import SCHEMA, SOURCE
from tests.kernels.test_top_k import INSERTS, top, tops

SURVEYED, SWEPT = 10**9, 0


def sent(node: TopK, batches: list[EventBatch], many: int) -> list[list[str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "COMPILE_FROM_ROWS", many)
        if many == SURVEYED:
            patch.setattr(columns, "_is_loaded", lambda: False)
        runner = LocalRunner(node)
        return [sorted(map(repr, elements_of(runner.step({"S": batch})))) for batch in batches]


@given(tops(), st.one_of(streams(SCHEMA, max_size=30), busy_streams(most=80)).flatmap(batchings))
def test_both_send_the_same(node: TopK, batches: list[EventBatch]) -> None:
    assert sent(node, batches, SWEPT) == sent(node, batches, SURVEYED)


@given(tops(INSERTS), busy_streams(most=80, insert_only=True).flatmap(batchings))
def test_both_send_the_same_of_what_stays(node: TopK, batches: list[EventBatch]) -> None:
    assert sent(node, batches, SWEPT) == sent(node, batches, SURVEYED)


def many_events(seed: int, count: int, *, span: int, values: int) -> EventBatch:
    random = np.random.default_rng(seed)
    payload = pa.RecordBatch.from_pydict(
        {
            "k": random.choice(["a", "b", "c"], count, p=[0.9, 0.09, 0.01]),
            "v": random.integers(0, 3, count),
            "x": random.integers(0, values, count).astype(float),
        },
        schema=SCHEMA,
    )
    start = random.integers(0, span, count)
    end = start + random.integers(1, span, count)
    end[random.random(count) < 0.02] = FOREVER
    return EventBatch(payload, start, start, end, BEGINNING)


@pytest.mark.parametrize("k", [1, 7, 300, 10**15])
@pytest.mark.parametrize(("span", "values"), [(50, 40), (3_000, 3_000)])
def test_many_rows_of_few_groups(k: int, span: int, values: int) -> None:
    first, second = (many_events(seed, 600, span=span, values=values) for seed in (1, 2))
    chosen = first.take(np.flatnonzero(np.random.default_rng(3).random(len(first)) < 0.3))
    shorter = chosen.with_ends(chosen.new_end, chosen.start + (chosen.new_end - chosen.start) // 2)
    node = top(SOURCE, k, ("x", True, False), by=("k",))
    batches = [first, EventBatch.concat([second, shorter])]
    assert sent(node, batches, SWEPT) == sent(node, batches, SURVEYED)


def test_what_comes_in_the_place_of_what_goes_needs_no_look_at_all_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(columns, "COMPILE_FROM_ROWS", SWEPT)
    runner = LocalRunner(top(SOURCE, 2, ("x", True, False)))
    old, new, better = ("a", 1, 8.0), ("b", 2, 9.0), ("c", 3, 7.5)
    rows = [old, ("d", 4, 7.0), ("e", 5, 6.0)]
    first = PhysicalStream(SCHEMA, tuple(insert(*row, start=1, end=9) for row in rows))
    runner.step({"S": first.batches()[0]})
    monkeypatch.setattr(top_k, "events_over", never)
    gone = adjust(*old, start=1, end=9, new_end=1)
    for row in (new, better):
        second = PhysicalStream(SCHEMA, (insert(*row, start=1, end=9), gone))
        left = runner.step({"S": second.batches()[0]})
        assert len(left) == 2
        gone = adjust(*row, start=1, end=9, new_end=1)
    with pytest.raises(AssertionError):
        runner.step({"S": PhysicalStream(SCHEMA, (gone,)).batches()[0]})


@pytest.mark.parametrize("many", [SURVEYED, SWEPT])
@pytest.mark.parametrize("x", [7.5, 8.5])
def test_what_was_never_there_cannot_go_from_a_full_group(
    many: int, x: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "COMPILE_FROM_ROWS", many)
    runner = LocalRunner(top(SOURCE, 2, ("x", True, False)))
    rows = [insert("a", 1, value, start=1, end=9) for value in (8.0, 7.0, 6.0)]
    runner.step({"S": PhysicalStream(SCHEMA, tuple(rows)).batches()[0]})
    gone = PhysicalStream(SCHEMA, (adjust("a", 1, x, start=1, end=9, new_end=1),))
    with pytest.raises(StreamError, match="never inserted"):
        runner.step({"S": gone.batches()[0]})


def of(*lifetimes: tuple[int, int, int]) -> Lifetimes:
    code, start, end = np.array(lifetimes, np.int64).reshape(-1, 3).T
    return Lifetimes(code, start, end)


@pytest.mark.parametrize(
    ("old", "change", "moves"),
    [
        ([], [(0, 1, 1), (0, 5, -1)], [(0, 1, 1, 5)]),
        ([(0, 1, 5)], [(0, 5, 1), (0, 9, -1)], [(0, 1, 5, 9)]),
        ([(0, 1, 9)], [(0, 3, -1), (0, 5, 1)], [(0, 1, 9, 3), (0, 5, 5, 9)]),
        ([(0, 1, 9)], [(0, 1, -1), (0, 9, 1)], [(0, 1, 9, 1)]),
        # A second copy is a level of its own.
        ([(0, 1, 9)], [(0, 3, 1), (0, 5, -1)], [(0, 3, 3, 5)]),
        ([(0, 1, 9), (0, 1, 5)], [(0, 1, -1), (0, 9, 1)], [(0, 1, 9, 5), (0, 1, 5, 1)]),
        # Other rows are not looked at.
        ([(0, 1, 9), (2, 1, 9)], [(1, 4, 2), (1, 5, -2)], [(1, 4, 4, 5), (1, 4, 4, 5)]),
    ],
)
def test_lifetimes_follow_the_levels(
    old: list[tuple[int, int, int]],
    change: list[tuple[int, int, int]],
    moves: list[tuple[int, int, int, int]],
) -> None:
    found = move_lifetimes(of(*old), *np.array(change, np.int64).T)
    rows = zip(*(part.tolist() for part in (found.code, found.start, found.end, found.new_end)))
    assert sorted(rows) == sorted(moves)
    for code, start, end, was in zip(found.code, found.start, found.end, found.was):
        assert (end == start) if was < 0 else old[was] == (code, start, end)
