"""Windows over lifetimes below operators that do not see duplicates: one interval, not layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.analysis.presence import with_presence_windows
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.stateless.time_window import TimeWindowKernel
from anabranch.model.logical import LogicalStream
from anabranch.model.time import Duration
from anabranch.testing import (
    LocalRunner,
    PhysicalStream,
    assert_agrees,
    insert,
    schedules,
    stable,
    streams,
)
from tests.kernels.plans import SCHEMA, SOURCE, aggregate

SECOND = 1_000_000
HOUR = 3600 * SECOND
OTHER = Source(name="T", schema=SCHEMA)
NAMED = Map(
    input=OTHER,
    columns=tuple((f"{name}2", Expression.parse(name, SCHEMA)) for name in SCHEMA.names),
)


def window(over: Node, size: int = 4, slide: int = 1) -> TimeWindow:
    return TimeWindow(input=over, size=Duration(size), slide=Duration(slide))


def join(kind: JoinKind, left: Node, right: Node, condition: str | None = "k = k2") -> Join:
    both = pa.schema([*left.schema, *right.schema])
    predicate = None if condition is None else Expression.parse(condition, both)
    return Join(kind=kind, left=left, right=right, predicate=predicate)


def filtered(over: Node) -> Node:
    return Filter(input=over, predicate=Expression.parse("v > 0 OR v IS NULL", over.schema))


def blind(over: Node, name: str) -> Node:
    """An operator over a stream that does not see how often a payload is there."""
    other = Distinct(input=window(OTHER, 3))
    plans: dict[str, Node] = {
        "distinct": Distinct(input=over),
        "min and max": aggregate(over, ("k",), "lo", "hi"),
        "max": aggregate(over, (), "hi"),
        "of distinct values": aggregate(over, (), "d", "sd"),
        "groups": aggregate(over, ("k", "v")),
        "count of distinct": aggregate(Distinct(input=over), (), "n"),
        "filter": Distinct(input=filtered(over)),
        "union": Distinct(input=Union(inputs=(over, OTHER))),
        "coalesce": Distinct(input=Coalesce(input=over)),
        "shift": Distinct(input=Shift(input=over, by=2)),
        "granularity": Distinct(input=Granularity(input=over, granule=Duration(3))),
        "nested": Distinct(input=window(over, 3, 2)),
        "intersection": SetOperation(kind="intersection", left=over, right=other),
        "except distinct": SetOperation(kind="difference", left=other, right=over),
        "strict": SetOperation(kind="strict difference", left=OTHER, right=over),
        "distinct join": Distinct(input=join("left", over, NAMED)),
    }
    return plans[name]


BLIND = (
    *("distinct", "min and max", "max", "of distinct values", "groups", "count of distinct"),
    *("filter", "union", "coalesce", "shift", "granularity", "nested", "intersection"),
    *("except distinct", "strict", "distinct join"),
)
WINDOWS = st.builds(
    window,
    st.just(SOURCE),
    st.one_of(st.integers(1, 9), st.just(int(UNBOUNDED))),
    st.integers(1, 6),
)


def presence(plan: Node) -> list[TimeWindow]:
    """The windows of the plan as it runs that hold lifetimes once."""
    found = with_presence_windows(plan).walk()
    return [each for each in found if isinstance(each, TimeWindow) and each.presence]


@given(
    WINDOWS,
    st.sampled_from(BLIND),
    schedules(S=streams(SCHEMA, longest=12), T=streams(SCHEMA, longest=12)),
)
def test_operators_that_ignore_duplicates_see_no_difference(
    held: TimeWindow, name: str, steps: Any
) -> None:
    plan = blind(held, name)
    assert [each.input for each in presence(plan) if each.input == SOURCE] == [SOURCE]
    assert_agrees(plan, batches=steps)


@given(
    st.sampled_from(["semi", "anti"]),
    st.integers(1, 9),
    st.integers(1, 4),
    schedules(S=streams(SCHEMA, longest=12), T=streams(SCHEMA, longest=12)),
)
def test_semi_and_anti_joins_ask_whether_there_is_one(
    kind: JoinKind, size: int, slide: int, steps: Any
) -> None:
    right = window(NAMED, size, slide)
    plan = join(kind, SOURCE, right, "v = v2")
    assert presence(plan) == [replace(right, presence=True)]
    assert_agrees(plan, batches=steps)


@pytest.mark.parametrize(
    "plan",
    [
        aggregate(window(SOURCE), (), "n"),
        aggregate(window(SOURCE), ("k",), "hi", "s"),
        window(SOURCE),
        Distinct(input=aggregate(window(SOURCE), (), "n")),
        join("inner", SOURCE, window(NAMED)),
        join("semi", window(SOURCE), NAMED),
        SetOperation(kind="difference", left=window(SOURCE), right=OTHER),
        SetOperation(kind="difference", left=OTHER, right=window(SOURCE)),
        SetOperation(kind="intersection", left=OTHER, right=window(SOURCE)),
    ],
    ids=lambda plan: plan.label,
)
def test_operators_that_count_keep_the_layers(plan: Node) -> None:
    assert presence(plan) == []
    held = next(each for each in plan.walk() if isinstance(each, TimeWindow))
    rows = LogicalStream.of([(("a", 1, 0.5), 0, 3), (("a", 1, 0.5), 1, 3)])
    # The tempting neighbour: a window that holds every lifetime once gives another stream.
    assert held.denote(rows) != replace(held, presence=True).denote(rows)


@given(WINDOWS, streams(SCHEMA, longest=12), st.integers(1, 5))
def test_what_is_held_once_is_there_when_it_would_be(
    held: TimeWindow, stream: PhysicalStream, batch: int
) -> None:
    """The kernel may hold a payload several times, but never when `denote` does not."""
    once = replace(held, presence=True)
    there = LogicalStream.of_batches(
        TimeWindowKernel(once).apply(each) for each in stream.in_batches_of(batch)
    )
    cut = there.combine(LogicalStream(), lambda mine, _: min(mine, 1))
    counted = held.denote(stream.meaning())
    assert cut == counted.combine(LogicalStream(), lambda mine, _: min(mine, 1))
    assert once.denote(stream.meaning()) == cut


def test_the_single_interval_form_runs_on_microseconds_and_explain_says_so() -> None:
    held = window(window(Source(name="S", schema=SCHEMA, only_points=True), 600 * SECOND), HOUR)
    plan = aggregate(held, ("k",), "hi")
    row = insert("a", 1, 0.5, start=7, end=8)
    batch = PhysicalStream(SCHEMA, (row, stable(2 * HOUR))).batches()[0]
    out = LocalRunner(plan).step({"S": batch})
    wanted = [(("a", 0.5), 7, 7 + 600 * SECOND + HOUR - 1)]
    assert LogicalStream.of_batches([out]).events() == wanted
    labels = [step.label for stage in compile_plan(plan).stages for step in stage.edges[0].chain]
    assert labels[-1] == f"TimeWindow {HOUR} presence only"
