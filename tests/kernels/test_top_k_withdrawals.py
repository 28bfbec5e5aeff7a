"""Where one of the first rows goes the next ones are found by rank, with little else read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.source import Source
from anabranch.algebra.top_k import TopK, in_order
from anabranch.errors import StreamError
from anabranch.expressions.expression import Expression
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.top_k import next_rows, top_k
from anabranch.kernels.top_k.rank_order import RankedSlice, RowOrder
from anabranch.kernels.trace.event_trace import events_over, rows_over
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.thresholds import thresholds
from anabranch.testing import (
    Element,
    KitStable,
    LocalRunner,
    Move,
    PhysicalStream,
    adjust,
    assert_agrees,
    batchings,
    elements_of,
    insert,
    payload_schemas,
    streams,
)
from tests.kernels.busy import busy_streams
from tests.kernels.plans import SCHEMA, SOURCE
from tests.kernels.test_top_k import top, tops
from tests.kernels.test_top_k_contenders import tops_of_windows

LOOPS = [1, columns.COMPILE_FROM_ROWS]


@pytest.fixture(autouse=True, params=LOOPS, ids="{0} rows are many".format)
def by_rank(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All groups are read by rank, a row or two at a time, in numpy and in compiled loops."""
    monkeypatch.setattr(columns, "COMPILE_FROM_ROWS", request.param)
    if request.param > 1:
        monkeypatch.setattr(columns, "_is_loaded", lambda: False)
    with thresholds(
        MERGE_ALL_UP_TO_ROWS=1,
        READ_ALL_UP_TO_ROWS=1,
        READ_ALL_PER_ARRIVED=1,
        RANK_FROM_ROWS=1,
        NEXT_ROWS=1,
        RANK_BLOCK_ROWS=2,
    ):
        yield


def shrinking(node: TopK, seed: int, most: int) -> PhysicalStream:
    """A legal stream of few large groups, in which rows among the first go again and again.

    Rows come back, have copies, begin and end at few instants or at many, and some never end.
    """
    chance = random.Random(seed)
    values, span = chance.choice([3, 10, 1000]), chance.choice([4, 12, 200])
    keys: list[str | None] = chance.choice([["a"], ["a", "b", None]])
    held, withdrawn = chance.choice([most // 8, most // 3]), chance.choice([0.4, 0.6])

    def payload() -> tuple[Any, ...]:
        number = chance.choice([None, float("nan"), *[chance.randrange(values) / 4] * 15])
        count = None if chance.random() < 0.1 else chance.randrange(values)
        return chance.choice(keys), count, number

    pool = list({repr(row): row for row in (payload() for _ in range(most // 2))}.values())
    ranks = {repr(row): rank for rank, row in enumerate(in_order(pool, node.order_by, SCHEMA))}
    live: list[tuple[tuple[Any, ...], int, int]] = []
    elements: list[Element] = []
    stable = 0
    for _ in range(chance.randrange(4, most)):
        if chance.random() < 0.05:
            stable += chance.randrange(max(span // 4, 2))
            elements.append(KitStable(stable))
            continue
        open_ = [event for event in live if event[2] >= stable]
        if len(open_) < held or chance.random() > withdrawn:
            start = stable + chance.choice([0, chance.randrange(span)])
            end = FOREVER if chance.random() < 0.1 else start + 1 + chance.randrange(span)
            row = chance.choice(pool)
            live.append((row, start, end))
            elements.append(Move(row, start, start, end))
            continue
        order = sorted(open_, key=lambda event: ranks[repr(event[0])])
        reach = chance.choice([3, 12, len(order)])
        row, start, end = event = chance.choice(order[: max(reach, node.k)])
        live.remove(event)
        new_end = max(start, stable)
        if chance.random() < 0.3:
            new_end = max(stable, start + 1) + chance.choice([0, chance.randrange(span)])
        if new_end > start:
            live.append((row, start, new_end))
        elements.append(Move(row, start, end, new_end))
    return PhysicalStream(SCHEMA, tuple(elements))


@st.composite
def shrinking_streams(
    draw: st.DrawFn, most: int, nodes: st.SearchStrategy[TopK]
) -> tuple[TopK, PhysicalStream]:
    node = draw(nodes)
    return node, shrinking(node, draw(st.integers(0, 2**32)), most)


@given(shrinking_streams(60, tops()), st.sampled_from([1, 2, 5]))
def test_the_next_rows_are_those_that_the_node_means(
    drawn: tuple[TopK, PhysicalStream], size: int
) -> None:
    node, stream = drawn
    assert_agrees(node, stream, batch_size=size)


@given(tops(), streams(SCHEMA, max_size=30).flatmap(batchings))
def test_any_stream(node: TopK, batches: list[EventBatch]) -> None:
    assert_agrees(node, batches)


@given(tops_of_windows(), busy_streams(most=120).flatmap(batchings))
def test_windows_on_a_grid(node: TopK, batches: list[EventBatch]) -> None:
    assert_agrees(node, batches)


@given(st.data(), payload_schemas(), st.integers(1, 3), st.booleans(), st.booleans())
def test_any_columns_are_ranked(
    data: st.DataObject, schema: object, k: int, descending: bool, nulls_first: bool
) -> None:
    source = Source(name="S", schema=schema)
    first = Expression.parse("1", source.schema)
    node = TopK(input=source, k=k, order_by=((first, descending, nulls_first),))
    assert_agrees(node, data.draw(streams(source.schema, max_size=30).flatmap(batchings)))


def sent(node: TopK, batches: list[EventBatch], **some: int) -> list[list[str]]:
    with thresholds(**some):
        runner = LocalRunner(node)
        return [sorted(map(repr, elements_of(runner.step({"S": batch})))) for batch in batches]


@given(
    shrinking_streams(300, tops()),
    st.sampled_from([1, 3, 40]),
    st.sampled_from([1, 2, 16]),
    st.sampled_from([1, 3, 8]),
    st.sampled_from([1, 5, 30]),
)
def test_it_sends_what_a_look_at_all_rows_would_send(
    drawn: tuple[TopK, PhysicalStream], size: int, rows: int, block: int, long: int
) -> None:
    node, stream = drawn
    batches = stream.batches(*range(size, len(stream.elements), size))
    everything = sent(node, batches, READ_ALL_UP_TO_ROWS=10**9)
    few = {"NEXT_ROWS": rows, "RANK_BLOCK_ROWS": block, "RANK_FROM_ROWS": long}
    assert sent(node, batches, **few) == everything


X_FIRST = ("x", True, False)


def preloaded(live: int, seed: int = 3, *, text: bool = False) -> tuple[EventBatch, np.ndarray]:
    """Rows of one group, best ones in any order, and in which order they are the best."""
    chance = np.random.default_rng(seed)
    rank = chance.permutation(live)
    columns_: list[Any] = [np.full(live, "a"), np.arange(live), rank / 4.0]
    if text:
        columns_[0] = [f"{number:09}" for number in rank]
    payload = pa.RecordBatch.from_arrays([*map(pa.array, columns_)], schema=SCHEMA)
    start = chance.integers(0, 20, live)
    end = np.where(chance.random(live) < 0.3, FOREVER, 2_000 + chance.integers(0, 1_000, live))
    return EventBatch(payload, start, start, end, BEGINNING), np.argsort(-rank)


class Read:
    """Counts the rows that are looked at, one way or another, to find the next ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        ranks, first, all_of, over = RowOrder.ranks, RankedSlice.first, rows_over, events_over

        def counted_ranks(order: RowOrder, parts: Any, owner: Any) -> Any:
            self.rows += len(owner)
            return ranks(order, parts, owner)

        def counted_first(ranked: RankedSlice, run: Any, *rest: Any) -> Any:
            found = first(ranked, run, *rest)
            self.rows += len(found[0])
            return found

        def counted_all(*given: Any) -> Any:
            found = all_of(*given)
            self.rows += len(found[0])
            return found

        def counted_over(*given: Any, **more: Any) -> Any:
            found = over(*given, **more)
            self.rows += len(found[0])
            return found

        monkeypatch.setattr(RowOrder, "ranks", counted_ranks)
        monkeypatch.setattr(RankedSlice, "first", counted_first)
        monkeypatch.setattr(next_rows, "rows_over", counted_all)
        monkeypatch.setattr(top_k, "events_over", counted_over)


@pytest.mark.parametrize("order", [X_FIRST, ("k", True, False)])
def test_a_withdrawal_reads_as_much_of_a_large_group_as_of_a_small_one(
    order: tuple[str, bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    node, read = top(SOURCE, 3, order), Read(monkeypatch)
    most = []
    for live in (500, 20_000):
        rows, best = preloaded(live, text=order[0] == "k")
        runner = LocalRunner(node)
        looks = []
        runner.step({"S": rows})
        for number in best[:40]:
            gone = rows.take(np.array([number]))
            read.rows = 0
            runner.step({"S": gone.with_ends(gone.new_end, gone.start)})
            looks.append(read.rows)
        # The first look ranks the group.
        assert live <= looks[0] < 3 * live
        most.append(sum(sorted(looks[1:])[:36]))
    assert most[1] < 1.5 * most[0]
    assert most[1] < 36 * 150


def test_what_has_gone_before_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, best = preloaded(3_000)
    runner, read = LocalRunner(top(SOURCE, 3, X_FIRST)), Read(monkeypatch)
    runner.step({"S": rows})
    looks = []
    for part in np.array_split(best[:600], 300):
        gone = rows.take(part)
        read.rows = 0
        runner.step({"S": gone.with_ends(gone.new_end, gone.start)})
        looks.append(read.rows)
    early, late = sorted(looks[1:50]), sorted(looks[-50:])
    assert sum(late[:40]) < 2 * sum(early[:40])


def test_where_few_rows_hold_little_else_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that end one after the other: at the end of a late one few others hold."""
    live = 5_000
    rows, _ = preloaded(live)
    begin = np.arange(live)
    rows = EventBatch(rows.payload, begin, begin, begin + live, BEGINNING)
    runner = LocalRunner(top(SOURCE, 2, X_FIRST))
    runner.step({"S": rows})
    looks = []
    read = Read(monkeypatch)
    with thresholds(RANK_BLOCK_ROWS=16):
        for number in range(live - 3, live - 40, -3):
            gone = rows.take(np.array([number]))
            read.rows = 0
            runner.step({"S": gone.with_ends(gone.new_end, gone.start)})
            looks.append(read.rows)
    assert max(looks[1:]) < 600


def test_runs_are_ranked_again_where_nothing_is_remembered_of_them() -> None:
    rows, best = preloaded(300)
    gone = [rows.take(best[number : number + 2]) for number in range(0, 60, 2)]
    steps = [rows, *(each.with_ends(each.new_end, each.start) for each in gone)]
    one, other = (LocalRunner(top(SOURCE, 3, X_FIRST)) for _ in range(2))
    for step in steps:
        left = [sorted(map(repr, elements_of(each.step({"S": step})))) for each in (one, other)]
        assert left[0] == left[1]
        for run in other.traces[0].runs["events"]:
            run.derived.clear()
    assert any(run.derived for run in one.traces[0].runs["events"])


def test_a_run_may_be_ranked_by_several_orders() -> None:
    rows, _ = preloaded(20)
    runner = LocalRunner(top(SOURCE, 2, X_FIRST))
    runner.step({"S": rows})
    (run,) = runner.traces[0].runs["events"]
    ups = [top(SOURCE, 1, ("x", down, down)).order_by for down in (True, False)]
    found = [RowOrder(SCHEMA, order_by).slice(run, 0, 20).rows.tolist() for order_by in ups]
    assert found[0] == found[1][::-1]
    (values,) = [run.rows.column("key2").to_pylist()]
    for order, is_down in zip(found, (True, False), strict=True):
        assert all((values[a] > values[b]) == is_down for a, b in pairwise(order))


def test_what_was_never_there_cannot_go_from_a_large_group() -> None:
    rows, best = preloaded(100)
    for number, x in ((7, 0.1), (0, 1e9), (3, 24.3)):
        runner = LocalRunner(top(SOURCE, 5, X_FIRST))
        runner.step({"S": rows})
        back = rows.take(best[number : number + 1])
        payload = pa.RecordBatch.from_pydict({"k": ["a"], "v": [1], "x": [x]}, schema=SCHEMA)
        never = EventBatch(payload, back.start, back.new_end, back.start, BEGINNING)
        best_one = rows.take(best[:1])
        gone = best_one.with_ends(best_one.new_end, best_one.start)
        if x < 1:
            runner.step({"S": EventBatch.concat([gone, never])})  # behind all others: not looked at
            continue
        with pytest.raises(StreamError, match="never inserted"):
            runner.step({"S": EventBatch.concat([gone, never])})


def test_copies_of_the_last_row_come_up_one_by_one() -> None:
    first = [insert("a", 1, 9.0, start=0, end=20), insert("a", 2, 8.0, start=0, end=FOREVER)]
    copies = [insert("a", 3, 7.0, start=start, end=12 + start) for start in (0, 0, 1, 5)]
    rest = [insert("a", 4, number / 8, start=0, end=30) for number in range(20)]
    moves = (
        adjust("a", 1, 9.0, start=0, end=20, new_end=6),
        adjust("a", 2, 8.0, start=0, end=FOREVER, new_end=0),
        adjust("a", 3, 7.0, start=1, end=13, new_end=9),
        insert("a", 2, 8.0, start=2, end=5),
        adjust("a", 3, 7.0, start=0, end=12, new_end=3),
    )
    stream = PhysicalStream(SCHEMA, (*first, *copies, *rest, *moves))
    for k in (1, 2, 4):
        cuts = [len(first) + len(copies) + len(rest) + number for number in range(6)]
        assert_agrees(top(SOURCE, k, X_FIRST), stream.batches(*cuts))


def test_a_stable_point_forgets_what_has_ended_before_the_next_rows_are_read() -> None:
    rows, best = preloaded(400)
    batches = [rows.with_stable(Time(500))]
    for number in range(0, 30, 3):
        part = rows.take(best[number : number + 3])
        batches.append(
            part.with_ends(part.new_end, np.maximum(part.start, 1_000)).with_stable(Time(1_000))
        )
    assert_agrees(top(SOURCE, 4, X_FIRST), batches)
