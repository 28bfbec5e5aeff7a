"""Granularity, shift and clip mean what their nodes say."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.algebra.clip import Clip
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.testing import (
    PhysicalStream,
    assert_agrees,
    batchings,
    insert,
    instants,
    points,
    schedules,
    stable,
    streams,
)
from tests.kernels.plans import SCHEMA, SOURCE, aggregate

GRANULES = st.one_of(
    st.integers(1, 12), st.sampled_from([49, 10**6, 2**62, FOREVER // 2, FOREVER - 1])
).map(Duration)
AMOUNTS = st.one_of(
    st.integers(-20, 20), st.sampled_from([2**62, -(2**62), FOREVER - 1, -FOREVER + 1])
)
STRETCHES = st.tuples(st.none() | instants(), st.none() | instants()).filter(
    lambda stretch: (
        stretch != (None, None)
        and (BEGINNING if stretch[0] is None else stretch[0])
        < (FOREVER if stretch[1] is None else stretch[1])
    )
)


def clip(start: int | None, end: int | None, over: Node = SOURCE) -> Clip:
    return Clip(
        input=over,
        start=None if start is None else Time(start),
        end=None if end is None else Time(end),
    )


def granularity(granule: int, over: Node = SOURCE) -> Granularity:
    return Granularity(input=over, granule=Duration(granule))


@st.composite
def retimed(draw: st.DrawFn, over: Node = SOURCE) -> Node:
    node: Node = over
    for _ in range(draw(st.integers(1, 3))):
        made: list[Node] = [
            granularity(draw(GRANULES), node),
            Shift(input=node, by=draw(AMOUNTS)),
            clip(*draw(STRETCHES), node),
        ]
        node = draw(st.sampled_from(made))
    return node


@given(streams(SCHEMA).flatmap(batchings), GRANULES, st.sampled_from(["speculative", "final"]))
def test_granularity(batches: list[EventBatch], granule: Duration, emit: str) -> None:
    assert_agrees(granularity(granule), batches, emit="final" if emit == "final" else "speculative")


@given(streams(SCHEMA).flatmap(batchings), AMOUNTS, st.sampled_from(["speculative", "final"]))
def test_shift(batches: list[EventBatch], by: int, emit: str) -> None:
    node = Shift(input=SOURCE, by=by)
    assert_agrees(node, batches, emit="final" if emit == "final" else "speculative")


@given(streams(SCHEMA).flatmap(batchings), STRETCHES, st.sampled_from(["speculative", "final"]))
def test_clip(batches: list[EventBatch], stretch: tuple[int | None, int | None], emit: str) -> None:
    assert_agrees(clip(*stretch), batches, emit="final" if emit == "final" else "speculative")


@given(retimed(), streams(SCHEMA).flatmap(batchings))
def test_several_of_them(node: Node, batches: list[EventBatch]) -> None:
    assert_agrees(node, batches)


@given(
    retimed(),
    retimed(Source(name="T", schema=SCHEMA)),
    schedules(S=streams(SCHEMA), T=streams(SCHEMA)),
)
def test_an_aggregation_over_two_of_them(
    left: Node, right: Node, steps: list[dict[str, EventBatch]]
) -> None:
    assert_agrees(aggregate(Union(inputs=(left, right)), ("k",), "n", "hi"), batches=steps)


@given(
    retimed(Source(name="S", schema=SCHEMA, only_points=True)), points(SCHEMA).flatmap(batchings)
)
def test_a_window_over_points_that_were_retimed(node: Node, batches: list[EventBatch]) -> None:
    assert_agrees(TimeWindow(input=node, size=Duration(3)), batches)


@given(streams(SCHEMA), GRANULES, instants())
@example(
    PhysicalStream(SCHEMA, (insert("a", 1, 0.0, start=BEGINNING + 1, end=FOREVER - 1),)),
    Duration(10),
    BEGINNING + 3,
)
def test_a_sample_holds_until_the_next_one(
    stream: PhysicalStream, granule: Duration, instant: int
) -> None:
    sample = instant // granule * granule
    found = granularity(granule).denote(stream.meaning()).snapshot(instant)
    assert found == (stream.meaning().snapshot(sample) if sample > BEGINNING else {})


@given(streams(SCHEMA), st.integers(1, 9), st.integers(1, 5), instants())
def test_on_the_coarser_grid_two_granularities_agree(
    stream: PhysicalStream, granule: int, times: int, instant: int
) -> None:
    rows, on_grid = stream.meaning(), instant // (granule * times) * granule * times
    fine = granularity(granule).denote(rows)
    coarse = granularity(granule * times).denote(rows)
    assert on_grid <= BEGINNING or fine.snapshot(on_grid) == coarse.snapshot(on_grid)


@pytest.mark.parametrize(
    ("node", "promised"),
    [
        (granularity(5), 15),
        (Shift(input=SOURCE, by=-4), 7),
        (clip(20, 30), 20),
        (clip(None, 11), FOREVER),
        (clip(None, 12), 11),
    ],
    ids=lambda it: it.label if isinstance(it, Node) else str(it),
)
def test_promises_go_as_far_as_they_can(node: Node, promised: int) -> None:
    batch = PhysicalStream(SCHEMA, (stable(11),)).batches()[0]
    assert LocalRunner(node).step({"S": batch}).stable == promised
