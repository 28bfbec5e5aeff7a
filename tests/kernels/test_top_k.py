"""The first k rows of every snapshot, whatever comes and goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.top_k import Ordering, TopK
from anabranch.expressions.expression import Expression
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.top_k import best_rows
from anabranch.kernels.trace import runs
from anabranch.model.batch import EventBatch
from anabranch.model.time import Duration
from anabranch.testing import assert_agrees, batchings, payload_schemas, streams
from tests.kernels.busy import busy_streams
from tests.kernels.plans import SCHEMA, SOURCE, groups

SETTINGS = [
    (0, 0),
    (0, columns.COMPILE_FROM_ROWS),
    (4, 0),
    (runs.MERGE_ALL_UP_TO_ROWS, columns.COMPILE_FROM_ROWS),
]


@pytest.fixture(
    autouse=True, params=SETTINGS, ids="traces of {0[0]} rows merge, {0[1]} are many".format
)
def eagerness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """From how many rows on runs stay apart, and groups are swept by compiled loops."""
    small, many = request.param
    monkeypatch.setattr(runs, "MERGE_ALL_UP_TO_ROWS", small)
    monkeypatch.setattr(columns, "COMPILE_FROM_ROWS", many)
    if many:
        # Also where another test has loaded compiled loops, their twins in numpy are tested.
        monkeypatch.setattr(columns, "_is_loaded", lambda: False)


def top(over: Node, k: int, *orders: tuple[str, bool, bool], by: tuple[str, ...] = ()) -> TopK:
    order_by: tuple[Ordering, ...] = tuple(
        (Expression.parse(text, over.schema), descending, nulls_first)
        for text, descending, nulls_first in orders
    )
    return TopK(input=over, k=k, order_by=order_by, partition_by=groups(over, *by))


INSERTS = Source(name="S", schema=SCHEMA, insert_only=True)
ORDERS = st.lists(
    st.tuples(st.sampled_from(["k", "v", "x", "v % 2"]), st.booleans(), st.booleans()),
    min_size=1,
    max_size=2,
)


@st.composite
def tops(draw: st.DrawFn, over: Node = SOURCE) -> TopK:
    by = draw(st.sampled_from([(), ("k",), ("k", "v")]))
    return top(over, draw(st.sampled_from([1, 2, 3, 9])), *draw(ORDERS), by=by)


@given(
    tops(),
    streams(SCHEMA, max_size=30).flatmap(batchings),
    st.sampled_from(["speculative", "final"]),
)
def test_the_first_rows(node: TopK, batches: list[EventBatch], emit: str) -> None:
    assert_agrees(node, batches, emit="final" if emit == "final" else "speculative")


@given(
    tops(INSERTS),
    streams(SCHEMA, max_size=30, insert_only=True).flatmap(batchings),
)
def test_the_first_rows_of_a_stream_that_is_never_corrected(
    node: TopK, batches: list[EventBatch]
) -> None:
    assert_agrees(node, batches)


@given(st.data(), payload_schemas(), st.integers(1, 3), st.booleans(), st.booleans())
def test_any_columns(
    data: st.DataObject, schema: object, k: int, descending: bool, nulls_first: bool
) -> None:
    source = Source(name="S", schema=schema)
    first = Expression.parse("1", source.schema)
    node = TopK(input=source, k=k, order_by=((first, descending, nulls_first),))
    assert_agrees(node, data.draw(streams(source.schema).flatmap(batchings)))


@given(tops(), busy_streams().flatmap(batchings), st.sampled_from([3, best_rows.BLOCK_ROWS]))
def test_the_first_of_many(node: TopK, batches: list[EventBatch], at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best_rows, "BLOCK_ROWS", at_once)
        assert_agrees(node, batches)


@given(tops(INSERTS), busy_streams(insert_only=True).flatmap(batchings))
def test_the_first_of_many_that_stay(node: TopK, batches: list[EventBatch]) -> None:
    assert_agrees(node, batches)


@given(streams(SCHEMA).flatmap(batchings), st.integers(1, 6), st.sampled_from([1, 2, 5]))
def test_over_a_window(batches: list[EventBatch], size: int, slide: int) -> None:
    window = TimeWindow(input=SOURCE, size=Duration(size), slide=Duration(slide))
    assert_agrees(top(window, 2, ("x", True, False), by=("k",)), batches)
