"""Aggregates that need all values mean what their nodes say, whichever way they are found."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.errors import StreamError
from anabranch.expressions.expression import Expression
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.contract.kernel import SortedRun, Trace
from anabranch.kernels.trace import ranked_events, ranked_values, runs
from anabranch.model.batch import EventBatch
from anabranch.model.time import FOREVER, Duration
from anabranch.testing import (
    Element,
    LocalRunner,
    PhysicalStream,
    adjust,
    assert_agrees,
    batchings,
    insert,
    stable,
    streams,
)
from tests.kernels.busy import busy_streams
from tests.kernels.plans import HOLISTIC, SCHEMA, SOURCE, aggregate

BUSY = busy_streams().flatmap(batchings)


REACHES = [(0, 1, None), (4, 2, None), (0, 1, 1), (4, 2, 3), (runs.MERGE_ALL_UP_TO_ROWS, 32, 64)]


@pytest.fixture(autouse=True, params=REACHES, ids=str)
def reach(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither when runs are merged nor how much is read at once may matter.

    The third number is how many rows compiled loops read for a question; None: all is in numpy.
    """
    small, width, steps = request.param
    monkeypatch.setattr(runs, "MERGE_ALL_UP_TO_ROWS", small)
    monkeypatch.setattr(ranked_events, "FIRST_LOOK_ROWS", width)
    monkeypatch.setattr(ranked_values, "FIRST_VALUES", width)
    if steps is None:
        monkeypatch.setattr(columns, "_is_loaded", lambda: False)
    else:
        monkeypatch.setattr(ranked_events, "STEP_ROWS", steps)
        monkeypatch.setattr(columns, "COMPILE_FROM_ROWS", 0)


def some(*names: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True)


@given(
    some(*HOLISTIC, "n", "hi", "lo", "sdx", "d"),
    st.sampled_from([(), ("k",), ("v",)]),
    streams(SCHEMA, max_size=30).flatmap(batchings) | BUSY,
    st.sampled_from(["speculative", "final"]),
)
def test_holistic_aggregates(
    names: list[str], by: tuple[str, ...], batches: list[EventBatch], emit: str
) -> None:
    node = aggregate(SOURCE, by, *names)
    assert_agrees(node, batches, emit="final" if emit == "final" else "speculative")


@given(some(*HOLISTIC), BUSY, st.integers(1, 9), st.sampled_from([1, 2, 5]))
def test_over_a_window(names: list[str], batches: list[EventBatch], size: int, slide: int) -> None:
    window = TimeWindow(input=SOURCE, size=Duration(size), slide=Duration(slide))
    assert_agrees(aggregate(window, ("k",), *names), batches)


KINDS = [
    pa.bool_(),
    pa.int8(),
    pa.uint64(),
    pa.float32(),
    pa.decimal128(12, 2),
    pa.decimal128(38, 2),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.null(),
]


@given(st.data(), st.sampled_from(KINDS), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_values_of_any_type(data: st.DataObject, kind: pa.DataType, fraction: float) -> None:
    schema = pa.schema([("a", kind)])
    source = Source(name="S", schema=schema)
    value = Expression.parse("a", schema)
    calls = [AggregateCall(function="percentile_disc", argument=value, fraction=fraction)]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
        calls.append(AggregateCall(function="string_agg", argument=value, separator="-"))
    if any(test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)):
        calls += [
            AggregateCall(function="median", argument=value),
            AggregateCall(function="sum", argument=value, distinct=True),
        ]
    chosen = data.draw(st.lists(st.sampled_from(calls), min_size=1, unique=True))
    node = Aggregation(input=source, aggregates=tuple((call.function, call) for call in chosen))
    assert_agrees(node, data.draw(streams(schema).flatmap(batchings)))


LONG = "the same for the first so many bytes, "
HARD_TEXTS = (
    *("", "\0", "a", "a\0", "aa", "a\0b", LONG, LONG + "\0", LONG + "1", LONG + "2"),
    *("Z", "z", "é", "e\u0301", "ä", "中文", "😀", "\uffff", None),
)


@given(
    some("pds", "pds0", "t", "td", "med", "n"),
    st.sampled_from([(), ("v",)]),
    busy_streams(texts=HARD_TEXTS).flatmap(batchings),
)
def test_texts_are_in_the_order_of_their_bytes(
    names: list[str], by: tuple[str, ...], batches: list[EventBatch]
) -> None:
    assert_agrees(aggregate(SOURCE, by, *names), batches)


@given(
    st.lists(st.sampled_from(["pds", "pds0", "t", "n"]), min_size=1, unique=True),
    busy_streams(texts=HARD_TEXTS).flatmap(batchings),
    st.integers(1, 5),
)
def test_state_without_positions_of_texts_is_completed(
    names: list[str], batches: list[EventBatch], every: int
) -> None:
    """Earlier versions kept order statistics of texts without how many values are below them."""
    node = aggregate(SOURCE, (), *names)
    runner, plain = LocalRunner(node), LocalRunner(node)
    for number, batch in enumerate(batches):
        if number % every == 0:
            states = runner.states.items()
            runner.resume({name: tuple(map(_forgotten, state)) for name, state in states})
        found, wanted = (each.step({"S": batch}) for each in (runner, plain))
        assert found.payload.equals(wanted.payload)
        assert found.start.tolist() == wanted.start.tolist()
        assert found.new_end.tolist() == wanted.new_end.tolist()


def _forgotten(trace: Trace) -> Trace:
    lists = {name: tuple(map(_without_positions, held)) for name, held in trace.runs.items()}
    return Trace(lists, trace.stable)


def _without_positions(run: SortedRun) -> SortedRun:
    names = run.rows.schema.names
    kept = [name for name in names if not name.endswith((".below", ".upto"))]
    return SortedRun(run.rows.select(kept))


@pytest.mark.parametrize("size", [1, 2, 9])
def test_the_largest_and_smallest_numbers_are_values_like_others(size: int) -> None:
    least, most = -(2**63), 2**63 - 1
    rows = [most, least, most, 0, least, most, most - 1]
    elements = [
        insert("a", value, 0.0, start=place, end=20 - place) for place, value in enumerate(rows)
    ]
    back = [
        adjust("a", value, 0.0, start=place, end=20 - place, new_end=place)
        for place, value in enumerate(rows)
    ]
    stream = PhysicalStream(SCHEMA, (*elements, *back, stable(FOREVER)))
    assert_agrees(aggregate(SOURCE, (), "pdv", "medv", "pv"), stream, batch_size=size)


def test_a_text_that_began_before_the_promise_is_still_known() -> None:
    """Of an adjust before the stable point one half may be forgotten before the other one."""
    others = [insert(f"{place:02}", place, 0.0, start=1, end=100) for place in range(60)]
    elements: list[list[Element]] = [
        [*others, insert("a", 0, 0.0, start=1, end=5), stable(1)],
        [adjust("a", 0, 0.0, start=1, end=5, new_end=9), stable(6)],
        [insert("y", 0, 0.0, start=200, end=201)],
        [insert("y", 0, 0.0, start=300, end=301)],
        [insert("z", 0, 0.0, start=7, end=8)],
        [adjust("z", 0, 0.0, start=7, end=8, new_end=7)],
    ]
    batches = [PhysicalStream(SCHEMA, tuple(part)).batches()[0] for part in elements]
    assert_agrees(aggregate(SOURCE, (), "t", "pds"), batches)


def test_more_cannot_go_than_came() -> None:
    stream = PhysicalStream(
        SCHEMA,
        (
            insert("a", None, None, start=1, end=9),
            insert("b", None, None, start=1, end=9),
            adjust("a", 1, 0.5, start=1, end=9, new_end=5),
        ),
    )
    runner = LocalRunner(aggregate(SOURCE, (), "med"))
    with pytest.raises(StreamError, match="never inserted"):
        runner.step({"S": stream.batches()[0]})
