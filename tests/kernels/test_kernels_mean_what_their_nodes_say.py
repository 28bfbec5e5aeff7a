"""Every kernel agrees with its node's meaning, for any legal stream in any batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.model.batch import EventBatch
from anabranch.model.time import Duration
from anabranch.testing import (
    PhysicalStream,
    assert_agrees,
    batchings,
    durations,
    payload_schemas,
    points,
    schedules,
    streams,
)
from tests.kernels.plans import SCHEMA, SOURCE, aggregate, aggregates, plans

pytestmark = pytest.mark.usefixtures("eagerness")


def cut(stream: st.SearchStrategy[PhysicalStream]) -> st.SearchStrategy[list[EventBatch]]:
    return stream.flatmap(batchings)


@given(cut(streams(SCHEMA)))
def test_a_filter_keeps_rows_and_all_their_moves(batches: list[EventBatch]) -> None:
    predicate = Expression.parse("v > 1 AND k <> 'b'", SCHEMA)
    assert_agrees(Filter(input=SOURCE, predicate=predicate), batches)


@given(cut(streams(SCHEMA)))
def test_a_map_adds_up_payloads_that_become_equal(batches: list[EventBatch]) -> None:
    columns = (("w", Expression.parse("v % 2", SCHEMA)), ("k", Expression.parse("k", SCHEMA)))
    assert_agrees(Map(input=SOURCE, columns=columns), batches)


@given(schedules(S=streams(SCHEMA), T=streams(SCHEMA)))
def test_a_union_waits_for_the_slower_promise(steps: list[dict[str, EventBatch]]) -> None:
    other = Source(name="T", schema=SCHEMA)
    assert_agrees(Union(inputs=(SOURCE, other)), batches=steps)


@given(schedules(S=streams(SCHEMA), T=streams(SCHEMA)), st.sampled_from(["speculative", "final"]))
def test_aggregation_over_a_union_of_two_sources(
    steps: list[dict[str, EventBatch]], emit: str
) -> None:
    other = Source(name="T", schema=SCHEMA)
    node = aggregate(Union(inputs=(SOURCE, other)), ("k",), "n", "hi")
    assert_agrees(node, batches=steps, emit="final" if emit == "final" else "speculative")


@given(cut(points(SCHEMA)), durations(unbounded=True), durations(most=7))
def test_a_window_over_points(batches: list[EventBatch], size: Duration, slide: Duration) -> None:
    assert_agrees(TimeWindow(input=SOURCE, size=size, slide=slide), batches)


@given(cut(points(SCHEMA)), durations(), durations(most=7))
def test_a_window_over_declared_points(
    batches: list[EventBatch], size: Duration, slide: Duration
) -> None:
    source = Source(name="S", schema=SCHEMA, only_points=True)
    assert_agrees(TimeWindow(input=source, size=size, slide=slide), batches)


@given(cut(streams(SCHEMA)), durations(most=8), durations(most=7))
def test_a_window_over_lifetimes(
    batches: list[EventBatch], size: Duration, slide: Duration
) -> None:
    assert_agrees(TimeWindow(input=SOURCE, size=size, slide=slide), batches)


@given(aggregates(), cut(streams(SCHEMA)), st.sampled_from(["speculative", "final"]))
def test_aggregation(node: Node, batches: list[EventBatch], emit: str) -> None:
    assert_agrees(node, batches, emit="final" if emit == "final" else "speculative")


@given(
    aggregates(Source(name="S", schema=SCHEMA, insert_only=True)),
    cut(streams(SCHEMA, insert_only=True)),
)
def test_aggregation_of_a_stream_that_is_never_corrected(
    node: Node, batches: list[EventBatch]
) -> None:
    assert_agrees(node, batches)


@given(st.data(), payload_schemas())
def test_coalesce_of_any_payload(data: st.DataObject, schema: object) -> None:
    source = Source(name="S", schema=schema)
    assert_agrees(Coalesce(input=source), data.draw(cut(streams(source.schema))))


@given(plans(), cut(streams(SCHEMA, max_size=12)), st.sampled_from(["speculative", "final"]))
def test_whole_plans(node: Node, batches: list[EventBatch], emit: str) -> None:
    assert_agrees(node, batches, emit="final" if emit == "final" else "speculative")
