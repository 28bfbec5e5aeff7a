"""Count-based and partitioned windows mean what their nodes say."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import UNBOUNDED
from anabranch.errors import EngineError, PlanError, StreamError
from anabranch.expressions.expression import Expression, images
from anabranch.kernels.contract import keys
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.plan.explain import explain_stages
from anabranch.kernels.row_windows import element_fetch
from anabranch.kernels.row_windows.count_window import CountWindowKernel
from anabranch.kernels.trace import runs
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream, Payload
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.testing import (
    Element,
    LocalRunner,
    PhysicalStream,
    adjust,
    assert_agrees,
    batchings,
    elements_of,
    insert,
    payload_schemas,
    points,
    stable,
    streams,
)
from tests.kernels.plans import SCHEMA, SOURCE, aggregate

Emission = Literal["speculative", "final"]
EMISSIONS: list[Emission] = ["speculative", "final"]

POINTS = points(SCHEMA).flatmap(batchings)
LIFETIMES = streams(SCHEMA, longest=9).flatmap(batchings)


@pytest.fixture(
    autouse=True,
    params=[(0, -(10**9)), (4, 0), (runs.MERGE_ALL_UP_TO_ROWS, 64)],
    ids=lambda sizes: f"traces of {sizes[0]} rows merge, gaps of {sizes[1]} are read",
)
def eagerness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    small, near = request.param
    monkeypatch.setattr(runs, "MERGE_ALL_UP_TO_ROWS", small)
    monkeypatch.setattr(element_fetch, "SKIP_FROM_ELEMENTS", near)


def window(
    rows: int,
    slide: int = 1,
    by: tuple[str, ...] = (),
    order_by: tuple[str, ...] = (),
    over: Node = SOURCE,
) -> CountWindow:
    return CountWindow(
        input=over,
        rows=rows,
        slide=slide,
        partition_by=tuple((f"by{n}", Expression.parse(t, over.schema)) for n, t in enumerate(by)),
        order_by=tuple(Expression.parse(text, over.schema) for text in order_by),
    )


@st.composite
def windows(draw: st.DrawFn, *, ordered: bool) -> CountWindow:
    orders = [("v",), ("x", "-v"), ("k",), ("1",), ("upper(k)", "x")]
    return window(
        draw(st.sampled_from([1, 2, 3, 4, 10**18, UNBOUNDED])),
        draw(st.sampled_from([1, 1, 1, 2, 3, 4])),
        draw(st.sampled_from([(), (), ("k",), ("v % 2",), ("k", "x")])),
        draw(st.sampled_from(orders)) if ordered else (),
    )


def elements(node: CountWindow, stream: LogicalStream) -> dict[Payload, list[tuple[int, Payload]]]:
    """Per group, its elements by time."""
    found: dict[Payload, list[tuple[int, Payload]]] = {}
    groups = images([key for _, key in node.partition_by], list(stream.steps), node.schema)
    for payload, start, end in stream.events():
        found.setdefault(groups[payload], []).extend((t, payload) for t in range(start, end))
    return {group: sorted(some, key=lambda e: e[0]) for group, some in found.items()}


def ties(node: CountWindow, batches: list[EventBatch]) -> set[int]:
    """The settled instants at which a group has several elements."""
    found = set()
    promised = max((batch.stable for batch in batches), default=BEGINNING)
    for some in elements(node, LogicalStream.of_batches(batches)).values():
        for instant, count in Counter(t for t, _ in some).items():
            if count > 1 and instant < promised:
                found.add(instant)
    return found


def check(node: CountWindow, batches: list[EventBatch], emit: Emission = "speculative") -> None:
    """Compare with the meaning, as far as ties allow; then they must be refused."""
    until = len(batches) if node.order_by else 0
    while until < len(batches) and not ties(node, batches[: until + 1]):
        until += 1
    assert_agrees(node, batches[:until], emit=emit)
    if until < len(batches):
        first = min(ties(node, batches[: until + 1]))
        with pytest.raises(StreamError, match=f"at instant {first}\\b"):
            assert_agrees(node, batches[: until + 1], emit=emit)


@given(windows(ordered=True), POINTS, st.sampled_from(EMISSIONS))
def test_windows_over_points(node: CountWindow, batches: list[EventBatch], emit: Emission) -> None:
    check(node, batches, emit)


@given(windows(ordered=True), LIFETIMES, st.sampled_from(EMISSIONS))
def test_every_instant_of_a_lifetime_is_an_element(
    node: CountWindow, batches: list[EventBatch], emit: Emission
) -> None:
    check(node, batches, emit)


@given(windows(ordered=False), POINTS | LIFETIMES, st.sampled_from(EMISSIONS))
def test_settled_ties_are_refused(
    node: CountWindow, batches: list[EventBatch], emit: Emission
) -> None:
    check(node, batches, emit)


@given(st.data(), payload_schemas(), st.integers(1, 3), st.integers(1, 3))
def test_any_columns(data: st.DataObject, schema: pa.Schema, rows: int, slide: int) -> None:
    source = Source(name="S", schema=schema)
    batches = data.draw(streams(schema, longest=3).flatmap(batchings))
    by = data.draw(st.sampled_from([(), (f"`{schema.names[0]}`",)]))
    check(window(rows, slide, by, ("1",), source), batches)


@given(windows(ordered=True), LIFETIMES, LIFETIMES.map(len))
def test_any_cut_into_batches_gives_the_same(
    node: CountWindow, batches: list[EventBatch], size: int
) -> None:
    whole = EventBatch.concat(batches)
    middle = min(size, len(whole))
    rows = np.arange(len(whole))
    parts = [whole.take(rows[:middle]).with_stable(BEGINNING), whole.take(rows[middle:])]
    results = []
    for cut in (batches, [whole], parts):
        runner = LocalRunner(node)
        left = [runner.step({"S": batch}) for batch in cut]
        results.append(LogicalStream.of_batches(left))
    assert results[0] == results[1] == results[2]


@given(windows(ordered=True), POINTS)
def test_a_batch_moves_an_event_at_most_once(node: CountWindow, batches: list[EventBatch]) -> None:
    runner = LocalRunner(node)
    for batch in batches:
        left = runner.step({"S": batch})
        assert (left.end != left.new_end).all()
        # Several events may have one payload and start: then no end is both left and reached, and
        # none of them is withdrawn while another one is inserted.
        moves = list(zip(map(repr, left.payload.to_pylist()), left.start, left.end, left.new_end))
        gone = {(row, start, end) for row, start, end, _ in moves if end > start}
        come = {(row, start, end) for row, start, _, end in moves if end > start}
        assert not gone & come
        inserted = {(row, start) for row, start, end, _ in moves if end == start}
        withdrawn = {(row, start) for row, start, _, end in moves if end == start}
        assert not inserted & withdrawn


def test_another_row_of_the_same_payload_takes_the_place_of_one() -> None:
    rows = [("a", 1), ("b", 5), ("c", 0), ("a", 3)]
    came = [insert(key, 0, None, start=t, end=t + 1) for key, t in rows]
    left = assert_agrees(window(2, 2), PhysicalStream(SCHEMA, tuple(came)), batch_size=2)
    # Both a and b of the first batch show up at 5; then another a does so instead.
    assert set(elements_of(left[1])) == {
        insert("c", 0, None, start=1, end=5),
        insert("a", 0, None, start=1, end=5),
    }


@given(windows(ordered=True), LIFETIMES)
def test_a_trace_holds_just_what_may_still_matter(
    node: CountWindow, batches: list[EventBatch]
) -> None:
    runner = LocalRunner(node)
    promised = BEGINNING
    for number, batch in enumerate(batches, start=1):
        promised = Time(max(promised, batch.stable))
        runner.step({"S": batch})
        if runs.MERGE_ALL_UP_TO_ROWS < 4_096:
            continue
        needed = 0
        for some in elements(node, LogicalStream.of_batches(batches[:number])).values():
            needed += len({(t, payload) for t, payload in some if t >= promised})
            settled = sum(t < promised for t, _ in some)
            if promised < FOREVER:
                complete = settled // node.slide * node.slide
                size = 0 if node.rows == UNBOUNDED else node.rows
                first = max(complete - size + 1, 1)
                # One row counts those before, modulo the slide.
                needed += settled - first + 1 + ((first - 1) % node.slide > 0)
        assert runner.state_rows() <= needed


def test_a_row_of_which_only_some_copies_matter_is_one_row() -> None:
    came = [insert("a", 1, None, start=t, end=t + 1) for t in (1, 2, 2, 3, 3, 4, 4)]
    for node in (window(UNBOUNDED, 2, order_by=("v",)), window(3, 4, order_by=("v",))):
        runner = LocalRunner(node)
        stream = PhysicalStream(SCHEMA, (*came, stable(5)))
        for batch in stream.batches():
            runner.step({"S": batch})
        if runs.MERGE_ALL_UP_TO_ROWS >= 4_096:
            assert runner.state_rows() <= (1 if node.rows == UNBOUNDED else 4)
        more = [insert("a", n, None, start=5 + n, end=6 + n) for n in range(6)]
        assert_agrees(node, PhysicalStream(SCHEMA, (*stream.elements, *more)), batch_size=4)


def test_after_the_end_nothing_is_held() -> None:
    for node in (window(3), window(3, 2, ("k",)), window(UNBOUNDED, 3)):
        runner = LocalRunner(node)
        rows = [insert("a", t, 0.5, start=t, end=t + 1) for t in range(9)]
        runner.step({"S": PhysicalStream(SCHEMA, tuple(rows)).batches()[0]})
        assert runner.state_rows() > 0
        runner.step({"S": EventBatch.empty(SCHEMA, FOREVER)})
        assert runner.state_rows() == 0


def long_stream(seed: int, size: int, groups: int, *, ties: bool) -> list[EventBatch]:
    """Many batches of points, some of which are late or withdrawn; promises lag behind."""
    random = np.random.default_rng(seed)
    live: list[tuple[str, int, int]] = []
    used: set[tuple[str, int]] = set()
    batches, promised, now = [], 0, 0
    while size > 0:
        came: list[Element] = []
        for _ in range(int(random.integers(0, 40))):
            size -= 1
            open_still = [event for event in live if event[2] >= promised]
            if open_still and random.random() < 0.3:
                key, value, start = open_still[int(random.integers(len(open_still)))]
                came.append(adjust(key, value, None, start=start, end=start + 1, new_end=start))
                live.remove((key, value, start))
                used.discard((key, start))
                continue
            now += int(random.integers(1, 4))
            late = random.random() < 0.3
            start = int(random.integers(promised, now + 1)) if late else now
            key = "abcdefgh"[int(random.integers(groups))]
            if not ties and (key, start) in used:
                continue
            value = int(random.integers(3))
            came.append(insert(key, value, None, start=start, end=start + 1))
            live.append((key, value, start))
            used.add((key, start))
        if random.random() < 0.4:
            promised = max(promised, now - int(random.integers(0, 200)))
            came.append(stable(promised))
        batches += PhysicalStream(SCHEMA, tuple(came)).batches()
    return batches


SIZES = [(1, 1), (3, 1), (8, 1), (UNBOUNDED, 1), (1, 3), (8, 3), (2, 4), (UNBOUNDED, 2)]


@pytest.mark.parametrize(("rows", "slide"), SIZES)
@pytest.mark.parametrize("order_by", [(), ("v",)], ids=["no ties", "ties"])
def test_long_streams(rows: int, slide: int, order_by: tuple[str, ...]) -> None:
    for by, groups in ((), 3 if order_by else 1), (("k",), 3):
        seed = rows % 97 + 10 * slide + len(by)
        batches = long_stream(seed, 160, groups, ties=bool(order_by))
        assert_agrees(window(rows, slide, by, order_by), batches)


def points_of(start: np.ndarray, promised: int = BEGINNING) -> EventBatch:
    """A point at each instant, in one of three groups."""
    columns = {"k": [f"key {t % 3}" for t in start.tolist()], "v": start % 7, "x": start / 4}
    payload = pa.RecordBatch.from_pydict(columns, schema=SCHEMA)
    return EventBatch(payload, start, start, start + 1, Time(promised))


@pytest.mark.parametrize("slide", [1, 4])
def test_a_long_run_holds_a_bounded_number_of_rows(slide: int) -> None:
    runner = LocalRunner(window(5, slide, ("k",)))
    held = []
    for number in range(200):
        start = np.arange(number * 10, number * 10 + 10)
        runner.step({"S": points_of(start, number * 10 - 15)})
        held.append(runner.state_rows())
    # Three groups of five elements, those of a slide, and 25 that are not settled.
    assert max(held) < 200
    assert max(held[100:]) <= 1.5 * max(held[20:100])


@pytest.mark.parametrize("by", [(), ("k",)])
def test_a_late_row_reads_its_neighbours_only(by: tuple[str, ...]) -> None:
    runner = LocalRunner(window(5, by=by))
    start = np.arange(0, 3_000)
    for part in np.split(start[start % 5 != 3], 8):
        runner.step({"S": points_of(part)})
    held = runner.traces[0].runs["elements"]
    kernel = compile_plan(window(5, by=by)).stages[0].kernels[0]
    assert isinstance(kernel, CountWindowKernel)
    late = kernel.prepare(points_of(np.array([33, 1833, 2853])))
    ids, times = late.column("__id").to_numpy(), np.array([33, 1833, 2853])
    order = np.lexsort((times, ids))
    found = element_fetch.fetch(held, kernel.layout, ids[order], times[order])
    assert found.rows.num_rows <= 3 * 2 * 5 * len(held)


def test_a_withdrawn_neighbour_is_not_counted() -> None:
    # The five elements nearest to the change are taken away in newer runs.
    came: list[Element] = [insert("a", t, None, start=t, end=t + 1) for t in range(0, 100, 2)]
    gone: list[Element] = [
        adjust("a", t, None, start=t, end=t + 1, new_end=t) for t in (*range(40, 50, 2), 54, 56)
    ]
    late: list[Element] = [insert("a", -1, None, start=51, end=52)]
    stream = PhysicalStream(SCHEMA, (*came, *gone, *late))
    cuts = [len(came), *range(len(came) + 1, len(stream.elements))]
    for rows in (1, 2, 5):
        assert_agrees(window(rows), stream.batches(*cuts))


def test_a_tie_may_be_resolved_before_it_is_settled() -> None:
    stream = PhysicalStream(
        SCHEMA,
        (
            insert("a", 1, None, start=3, end=4),
            insert("a", 2, None, start=3, end=4),
            stable(3),
            adjust("a", 1, None, start=3, end=4, new_end=3),
            stable(9),
        ),
    )
    assert_agrees(window(1), stream, batch_size=1)


def test_a_tie_is_remembered_until_it_is_settled() -> None:
    came = [insert("a", n, None, start=t, end=t + 1) for n, t in enumerate([3, 3, 5, 7, 9])]
    stream = PhysicalStream(SCHEMA, (*came, stable(4)))
    assert_agrees(window(1), stream.batches(2, 3, 4, 5)[:-1])
    with pytest.raises(StreamError, match="at instant 3"):
        assert_agrees(window(1), stream.batches(2, 3, 4, 5))


def test_ties_are_ordered_by_the_expressions_then_by_the_columns() -> None:
    came = [
        insert(k, v, x, start=1, end=2)
        for k, v, x in [("b", 2, 7.0), ("a", 3, 1.5), ("c", 2, 0.5), (None, 2, None), ("a", 3, 0.5)]
    ]
    stream = PhysicalStream(SCHEMA, (*came, stable(3)))

    def last(rows: int, *order_by: str) -> list[tuple[str | None, int, float | None]]:
        for size in (1, 2, 9):
            left = assert_agrees(window(rows, order_by=order_by), stream, batch_size=size)
        return sorted(LogicalStream.of_batches(left).snapshot(1), key=repr)

    assert last(1, "v") == [("a", 3, 1.5)]
    assert last(2, "v") == [("a", 3, 0.5), ("a", 3, 1.5)]
    assert last(3, "v") == [("a", 3, 0.5), ("a", 3, 1.5), ("c", 2, 0.5)]
    assert last(1, "-v") == [("c", 2, 0.5)]
    assert last(1, "x") == [("b", 2, 7.0)]
    assert last(3, "x", "k") == [("a", 3, 1.5), ("b", 2, 7.0), ("c", 2, 0.5)]
    assert last(2, "-v", "x") == [("b", 2, 7.0), ("c", 2, 0.5)]


def test_more_copies_than_the_window_holds() -> None:
    came: list[Element] = [insert("a", 1, None, start=0, end=1)] * 2
    came += [insert("a", 2, None, start=3, end=4)] * 5
    came += [insert("a", 3, None, start=t, end=t + 1) for t in (3, 5, 5, 7, 1)]
    came += [adjust("a", 2, None, start=3, end=4, new_end=3)] * 3
    for rows, slide in (1, 1), (3, 1), (4, 1), (3, 2), (2, 4), (UNBOUNDED, 1):
        for size in (1, 5):
            node = window(rows, slide, order_by=("v",))
            assert_agrees(node, PhysicalStream(SCHEMA, tuple(came)), batch_size=size)


def test_the_error_names_operator_instant_and_group() -> None:
    events = [
        insert(None, 1, None, start=3, end=4),
        insert(None, 2, None, start=3, end=4),
        insert("a", 2, None, start=3, end=4),
    ]
    stream = PhysicalStream(SCHEMA, (*events, stable(4)))
    for size in (1, 4):
        with pytest.raises(StreamError) as caught:
            assert_agrees(window(2, by=("k",)), stream, batch_size=size)
        assert str(caught.value).split("\n") == [
            "two elements at one instant have no order",
            "  CountWindow 2 by k AS by0: at instant 3, group (None)",
            "  hint: give order_by, which decides between elements at one instant, or use times at "
            "which at most one element of a group occurs",
        ]


def test_copies_are_ties_too() -> None:
    stream = PhysicalStream(SCHEMA, (*[insert("a", 1, None, start=3, end=4)] * 2, stable(4)))
    with pytest.raises(StreamError, match="two elements at one instant"):
        assert_agrees(window(2), stream)
    assert_agrees(window(1, order_by=("v",)), stream)


@pytest.mark.parametrize(("start", "end"), [(3, FOREVER), (BEGINNING + 1, FOREVER), (0, 10**9)])
def test_lifetimes_that_cannot_be_counted_are_refused(start: int, end: int) -> None:
    stream = PhysicalStream(SCHEMA, (insert("a", 1, None, start=start, end=end),))
    what = "without end" if end == FOREVER else "of 1000000000 instants"
    with pytest.raises(StreamError, match=f"a lifetime {what} cannot be counted"):
        LocalRunner(window(2)).step({"S": stream.batches()[0]})
    with pytest.raises(StreamError, match=f"a lifetime {what} cannot be counted"):
        window(2).denote(stream.meaning())


def test_the_last_instants_of_time_are_elements() -> None:
    stream = PhysicalStream(SCHEMA, (insert("a", 1, None, start=FOREVER - 3),))
    assert_agrees(window(2, order_by=("v",)), stream)
    assert_agrees(window(1, 2), stream)


def test_an_adjust_of_an_unknown_event_is_reported() -> None:
    stream = PhysicalStream(SCHEMA, (adjust("a", 1, 0.5, start=3, end=9, new_end=5),))
    with pytest.raises(StreamError, match="never inserted"):
        LocalRunner(window(2)).step({"S": stream.batches()[0]})


def test_two_groups_under_one_hash_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def weak(columns: list[pa.Array], length: int, salt: int = 0) -> np.ndarray:
        return stable_hash(columns, length, salt) % np.uint64(2 if salt == 0 else 2**63)

    monkeypatch.setattr(keys, "stable_hash", weak)
    rows = [insert(key, n, 0.0, start=n, end=n + 1) for key in "abc" for n in range(3)]
    with pytest.raises(EngineError, match="same 64-bit hash"):
        LocalRunner(window(2, by=("k", "v"))).step(
            {"S": PhysicalStream(SCHEMA, tuple(rows)).batches()[0]}
        )


def test_nulls_nans_and_zeros_are_groups_and_ties_of_their_own() -> None:
    values = [None, float("nan"), -0.0, 0.0, float("inf"), float("-inf"), 1.5]
    came = [
        insert(None, n % 2, x, start=t, end=t + 1) for t in (1, 2) for n, x in enumerate(values)
    ]
    stream = PhysicalStream(SCHEMA, (*came, stable(5)))
    for node in (window(2, order_by=("x",)), window(1, by=("x",), order_by=("v",))):
        for size in (1, 3, 100):
            assert_agrees(node, stream, batch_size=size)


def test_windows_over_windows_and_under_aggregates() -> None:
    batches = long_stream(7, 120, 3, ties=False)
    node = window(3, by=("k",))
    assert_agrees(aggregate(node, ("k",), "n", "s", "hi"), batches)
    assert_agrees(aggregate(node, (), "n", "lo"), batches)


def test_a_stage_per_partitioning() -> None:
    def stages(node: Node) -> list[str]:
        return explain_stages(compile_plan(node)).split("\n")

    assert stages(window(3)) == [
        "Stage 0-count-window (one shard)",
        "  reads source:S",
        "  CountWindow 3",
    ]
    assert stages(aggregate(window(3, 2, ("k",)), ("k",), "n")) == [
        "Stage 0-count-window (by k)",
        "  reads source:S",
        "  CountWindow 3 slide 2 by k AS by0",
        "  Aggregate count(*) AS n by k",
    ]
    apart = stages(aggregate(window(UNBOUNDED, by=("v % 2",), order_by=("v",)), ("v",), "n"))
    assert [line for line in apart if line.startswith("Stage")] == [
        "Stage 0-count-window (by v % 2)",
        "Stage 1-aggregate (by v)",
    ]
    assert "  CountWindow unbounded by v % 2 AS by0 order by v" in apart


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"rows": 0}, "a window cannot hold 0 rows"),
        ({"rows": 2**63}, "a window cannot hold"),
        ({"slide": 0}, "a window cannot slide by 0 rows"),
        ({"order_by": ("array(v)",)}, "have no order"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], what: str) -> None:
    with pytest.raises(PlanError, match=what):
        window(**{"rows": 1, **arguments})
