"""Windows over lifetimes on a grid: counted where they change, not layer by layer."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.algebra.analysis.weights import with_weighted_windows
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.algebra.weighted_window import WeightedWindow
from anabranch.errors import StreamError
from anabranch.expressions.expression import Expression
from anabranch.kernels.stateless import weighted_window
from anabranch.kernels.stateless.weighted_window import WeightedWindowKernel
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import freeze
from anabranch.model.time import FOREVER, Duration
from anabranch.testing import (
    LocalRunner,
    PhysicalStream,
    assert_agrees,
    insert,
    stable,
    streams,
)
from tests.kernels.plans import SCHEMA, SOURCE, aggregate

MINUTE = 60_000_000
POINTS = Source(name="S", schema=SCHEMA, only_points=True)
ADDITIVE = ("n", "c", "s", "sx", "a", "ax")
OTHERS = ("lo", "hi", "d", "sd", "ad")


def window(size: int, slide: int, granule: int = 1, over: Node = SOURCE) -> Node:
    held = TimeWindow(input=over, size=Duration(size), slide=Duration(slide))
    return held if granule == 1 else Granularity(input=held, granule=Duration(granule))


def weighted(plan: Node) -> list[WeightedWindow]:
    found = with_weighted_windows(plan).walk()
    return [each for each in found if isinstance(each, WeightedWindow)]


@st.composite
def plans(draw: st.DrawFn) -> Node:
    size = draw(st.one_of(st.integers(1, 14), st.just(int(UNBOUNDED))))
    slide, granule = draw(st.sampled_from([(2, 1), (3, 1), (7, 1), (1, 3), (1, 4), (3, 5), (4, 6)]))
    held: Node = window(size, slide, granule)
    shape = draw(st.integers(0, 3))
    if shape & 1:
        held = Filter(input=held, predicate=Expression.parse("v IS NULL OR v <> 2", SCHEMA))
    if shape & 2:
        columns = {"k": "k", "v": "v + 1", "x": "x"}
        parsed = ((name, Expression.parse(text, SCHEMA)) for name, text in columns.items())
        held = Map(input=held, columns=tuple(parsed))
    some = st.lists(st.sampled_from(ADDITIVE), min_size=1, max_size=3, unique=True)
    more = st.lists(st.sampled_from(OTHERS), max_size=1)
    by: tuple[str, ...] = draw(st.sampled_from([(), ("k",)]))
    return aggregate(held, by, *draw(some), *draw(more))


SHORT = st.sampled_from([1, 2, 15]).flatmap(
    lambda longest: streams(SCHEMA, longest=longest, odd_floats=False)
)
"""Lifetimes of which some batches have only points, which have lines of their own."""


@settings(max_examples=60)
@given(plans(), SHORT, st.integers(1, 6))
def test_aggregates_over_weights_are_those_over_copies(
    plan: Node, stream: PhysicalStream, batch: int
) -> None:
    assert len(weighted(plan)) == 1
    assert_agrees(plan, stream, batch_size=batch)


@settings(max_examples=60)
@given(
    st.integers(1, 14),
    st.sampled_from([(2, 1), (5, 1), (1, 3), (3, 5), (4, 6)]),
    st.booleans(),
    streams(SCHEMA, longest=20),
    st.integers(1, 5),
)
def test_weights_add_up_to_multiplicities(
    size: int, grid: tuple[int, int], powers: bool, stream: PhysicalStream, batch: int
) -> None:
    node = WeightedWindow(
        input=SOURCE,
        size=Duration(size),
        slide=Duration(grid[0]),
        granule=Duration(grid[1]),
        weight="n",
        powers=powers,
    )
    left = [WeightedWindowKernel(node).apply(each) for each in stream.in_batches_of(batch)]
    wanted = node.sampled.denote(node.window.denote(stream.meaning()))
    for found in (LogicalStream.of_batches(left), node.denote(stream.meaning())):
        copies = {
            payload: tuple((instant, count * payload[-1]) for instant, count in steps)
            for payload, steps in found.steps.items()
        }
        parts = [LogicalStream.of_steps({row[:-1]: steps}) for row, steps in copies.items()]
        assert LogicalStream().union(*parts) == wanted
        assert not powers or all(row[-1].bit_count() == 1 for row in copies)


@settings(max_examples=60)
@given(
    st.integers(1, 14),
    st.sampled_from([(2, 1), (5, 1), (1, 3), (3, 5), (4, 6)]),
    st.booleans(),
    SHORT,
)
def test_an_adjust_touches_nothing_before_the_ends_it_moves(
    size: int, grid: tuple[int, int], powers: bool, stream: PhysicalStream
) -> None:
    node = WeightedWindow(
        input=SOURCE,
        size=Duration(size),
        slide=Duration(grid[0]),
        granule=Duration(grid[1]),
        weight="n",
        powers=powers,
    )
    for batch in stream.in_batches_of(1):
        out = WeightedWindowKernel(node).apply(batch)
        if len(out):
            assert np.minimum(out.end, out.new_end).min() >= min(batch.end[0], batch.new_end[0])
            assert (out.end != out.new_end).all()


@settings(max_examples=60)
@given(st.sampled_from([(3, 2), (10, 10), (4, 3)]), SHORT)
def test_an_event_is_there_before_it_is_adjusted(
    grid: tuple[int, int], stream: PhysicalStream
) -> None:
    """A row may be written, cut and withdrawn in one batch, and go to readers one by one."""
    size, slide = map(Duration, grid)
    node = WeightedWindow(
        input=SOURCE, size=size, slide=slide, granule=Duration(1), weight="n", powers=True
    )
    out = WeightedWindowKernel(node).apply(stream.batches()[0])
    there: Counter[tuple[object, ...]] = Counter()
    payloads = [freeze(tuple(row.values())) for row in out.payload.to_pylist()]
    for event, old, new in zip(zip(payloads, out.start, strict=True), out.end, out.new_end):
        if old != event[1]:
            there[(*event, old)] -= 1
            assert there[(*event, old)] >= 0
        there[(*event, new)] += 1


@given(st.sampled_from([(3, 2), (10, 10), (4, 3)]), SHORT)
def test_events_that_come_and_go_whole_are_weighed_together_as_one_by_one(
    grid: tuple[int, int], stream: PhysicalStream
) -> None:
    size, slide = map(Duration, grid)
    node = WeightedWindow(
        input=SOURCE, size=size, slide=slide, granule=Duration(1), weight="n", powers=False
    )
    kernel = WeightedWindowKernel(node)
    batch = stream.batches()[0]
    batch = batch.where((batch.end == batch.start) | (batch.new_end == batch.start))

    def moves(rows: EventBatch) -> Counter[tuple[object, ...]]:
        payloads = [freeze(tuple(row.values())) for row in rows.payload.to_pylist()]
        return Counter(zip(payloads, rows.start, rows.end, rows.new_end, strict=True))

    alone = (moves(kernel.apply(batch.between(row, row + 1))) for row in range(len(batch)))
    assert moves(kernel.apply(batch)) == sum(alone, Counter[tuple[object, ...]]())


@pytest.mark.parametrize(
    "plan",
    [
        aggregate(window(5, 1), (), "n"),
        aggregate(window(5, 2), (), "hi"),
        aggregate(window(5, 2), (), "n", "vp"),
        aggregate(window(5, 2), (), "med"),
        aggregate(window(5, 2, over=POINTS), (), "n"),
        aggregate(Distinct(input=window(5, 2)), (), "n"),
        window(5, 2),
    ],
    ids=lambda plan: plan.label,
)
def test_what_is_not_weighed(plan: Node) -> None:
    """Without a grid, for points, below what needs the values themselves or ignores copies."""
    assert weighted(plan) == []


def test_a_mean_over_lifetimes_of_minutes_is_weighed_by_time() -> None:
    """30 minutes at 10 and 15 at 40: (30 * 10 + 15 * 40) / 45 = 20."""
    plan = aggregate(window(60 * MINUTE, 5 * MINUTE), (), "ax", "n")
    rows = [
        insert("a", 1, 10.0, start=0, end=30 * MINUTE),
        insert("a", 1, 40.0, start=30 * MINUTE, end=45 * MINUTE),
    ]
    batch = PhysicalStream(SCHEMA, (*rows, stable(FOREVER))).batches()[0]
    out = LogicalStream.of_batches([LocalRunner(plan).step({"S": batch})])
    assert out.snapshot(50 * MINUTE) == {(20.0, 45 * MINUTE): 1}
    assert out.snapshot(85 * MINUTE) == {(10 * 5 / 20 + 40 * 15 / 20, 20 * MINUTE): 1}
    assert out.snapshot(110 * MINUTE) == {}


def test_what_never_ends_is_full_from_the_size_on() -> None:
    plan = aggregate(window(60 * MINUTE, 20 * MINUTE), (), "n")
    row = insert("a", 1, 1.0, start=-MINUTE, end=FOREVER)
    batch = PhysicalStream(SCHEMA, (row, stable(FOREVER))).batches()[0]
    out = LogicalStream.of_batches([LocalRunner(plan).step({"S": batch})])
    assert out.snapshot(0) == {(MINUTE,): 1}
    assert out.snapshot(FOREVER - 1) == {(60 * MINUTE,): 1}


def test_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighted_window, "MOST_LAYERS", 100)
    plan = aggregate(window(10_000, 2), (), "n")
    row = insert("a", 1, 1.0, start=0, end=10_000)
    with pytest.raises(StreamError, match="different weights") as raised:
        LocalRunner(plan).step({"S": PhysicalStream(SCHEMA, (row,)).batches()[0]})
    assert "longer SLIDE" in str(raised.value)
