"""Windows of the time axis see the events of their input, also of inputs that are computed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.clip import Clip
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.split import Split
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator, Call
from anabranch.algebra.modules.axis_window import CountByEnd, CountByStart, Hopping, tumbling
from anabranch.algebra.modules.event_identity import (
    events_in_words,
    keeps_events,
    slide_of,
    with_events,
)
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.union import Union
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.language.fragments.operator_call import parse_operator_call
from anabranch.model.batch import EventBatch
from anabranch.model.time import FOREVER, Duration, Time
from anabranch.optimizer.driver import optimize
from anabranch.testing import PhysicalStream, assert_agrees, batchings, insert, points, stable
from anabranch.userops.library import default_library
from tests.kernels.modules import AGGREGATES, PLAIN, STARTS, TIMED
from tests.kernels.plans import SCHEMA, aggregate, groups
from tests.kernels.test_apply_operator import has_few_windows, windows

BOUNDS = ("window_start", "window_end")
POINTS = Source(name="S", schema=SCHEMA, only_points=True)
V = Expression.parse("v", SCHEMA)


def slid(size: int = 4, slide: int = 2, **options: Any) -> TimeWindow:
    return TimeWindow(input=POINTS, size=Duration(size), slide=Duration(slide), **options)


def rows(count: int, by: tuple[str, ...] = (), slide: int = 1) -> CountWindow:
    return CountWindow(
        input=POINTS, rows=count, slide=slide, partition_by=groups(POINTS, *by), order_by=(V,)
    )


def chosen(over: Node, **columns: str) -> Map:
    parsed = ((name, Expression.parse(text, over.schema)) for name, text in columns.items())
    return Map(input=over, columns=tuple(parsed))


def per_window(over: Node, **options: Any) -> ApplyOperator:
    call = Call(PLAIN, (Expression.parse("v", over.schema),), ("said",))
    given: dict[str, Any] = {"window": tumbling(Duration(3)), "calls": (call,), **options}
    return ApplyOperator.over(over, **given)


def means(over: Node, by: tuple[str, ...] = ()) -> Map:
    return chosen(aggregate(over, by, "a"), v="CAST(a AS BIGINT)")


BY_WINDOW = aggregate(slid(columns=BOUNDS), ("window_end",), "s")
SESSIONS = SessionWindow(input=POINTS, gap=Duration(3), columns=BOUNDS)
KEEPING: dict[str, Node] = {
    "window": slid(4, 1),
    "slide": slid(),
    "bounds": slid(4, 2, columns=BOUNDS),
    "edges": rows(1, ("k",)),
    "rows": rows(2, ("k",)),
    "slide of rows": rows(3, (), 2),
    "sessions": SessionWindow(input=POINTS, gap=Duration(3)),
    "windows": chosen(per_window(POINTS), v="CAST(length(said) AS BIGINT)"),
    "overlapping windows": chosen(
        per_window(POINTS, window=Hopping(Duration(5), Duration(2)), group_by=groups(POINTS, "k")),
        v="CAST(length(said) AS BIGINT)",
    ),
    "by bounds": chosen(BY_WINDOW, v="s"),
    "by session": chosen(aggregate(SESSIONS, BOUNDS, "s"), v="s"),
    "changes": chosen(ToStream(input=rows(1), kind="insertions"), v="v"),
    "granularity": Granularity(input=slid(3, 1), granule=Duration(2)),
    "clip": Clip(input=slid(3, 1), start=Time(2), end=Time(40)),
    "shift": Shift(input=slid(3, 1), by=-2),
    "union": Union(inputs=(slid(3, 1), rows(1))),
}
RESULTS: dict[str, Node] = {
    "means": means(slid()),
    "means of groups": means(slid(2, 2), ("k",)),
    "distinct": Distinct(input=chosen(slid(), v="v")),
    "having": Filter(
        input=means(slid(), ("k",)), predicate=Expression.parse("v > 0", means(slid()).schema)
    ),
}
SNAPSHOTS: dict[str, Node] = {
    "means": means(slid(4, 1)),
    "distinct": Distinct(input=slid(4, 1)),
    "join": Join(kind="inner", left=slid(4, 1), right=chosen(slid(3, 1), v2="v")),
}


@st.composite
def modules(draw: st.DrawFn, over: Node) -> ApplyOperator:
    some = draw(st.sampled_from(AGGREGATES))
    argument = Expression.parse("v", over.schema)
    return ApplyOperator.over(
        over,
        window=draw(windows()),
        calls=(Call(some, (argument,), ("said",)),),
        clip=draw(st.sampled_from(["none", "full"])),
        open_windows=draw(st.booleans()),
    )


INPUTS = {**KEEPING, **{f"results {name}": each for name, each in RESULTS.items()}}


def ends_before_time_does(came: list[EventBatch]) -> bool:
    """The last slide of all time has no end that could be cut."""
    times = [time for batch in came for time in batch.new_end.tolist()]
    return max(times, default=0) < FOREVER - 50


@pytest.mark.parametrize("name", INPUTS)
@settings(max_examples=8)
@given(st.data(), points(SCHEMA, max_size=9, odd_floats=False).flatmap(batchings))
def test_windows_see_the_events_that_the_plan_defines(
    name: str, data: st.DataObject, came: list[EventBatch]
) -> None:
    node = data.draw(modules(INPUTS[name]))
    assume(has_few_windows(node, came) and ends_before_time_does(came))
    assert_agrees(node, came)
    best = optimize(node).node
    if best != node:
        assert_agrees(best, came)


@given(st.data(), points(SCHEMA, max_size=9, odd_floats=False).flatmap(batchings))
def test_windows_see_the_longest_lifetimes_of_snapshots(
    data: st.DataObject, came: list[EventBatch]
) -> None:
    node = data.draw(modules(SNAPSHOTS["means"]) | modules(SNAPSHOTS["distinct"]))
    assume(has_few_windows(node, came))
    assert_agrees(node, came)


def test_which_operators_keep_events() -> None:
    for name, node in KEEPING.items():
        assert with_events(node) == node, name
        assert events_in_words(node) == "events are kept: one per row of the input"
    for name, node in RESULTS.items():
        assert not keeps_events(node), name
        assert with_events(node) == Split(input=node, length=Duration(2)), name
        assert keeps_events(with_events(node))
        assert "one per row and slide of 2" in events_in_words(with_events(node))
    for name, node in SNAPSHOTS.items():
        assert with_events(node) == Coalesce(input=node), name
        words = events_in_words(with_events(node))
        assert "only snapshots" in words
        assert "give its window a SLIDE" in words


def test_slides_that_differ_make_no_results_of_one_window() -> None:
    two, three = means(slid(4, 2)), means(slid(3, 3))
    assert slide_of(Union(inputs=(two, two))) == 2
    assert slide_of(Union(inputs=(two, three))) is None
    assert slide_of(TimeWindow(input=slid(), size=Duration(4), slide=Duration(2))) is None
    table = Source(name="T", schema=SCHEMA, relation=True)
    named = {f"{name}2": name for name in SCHEMA.names}
    assert slide_of(Join(kind="inner", left=two, right=chosen(table, **named))) is None
    other = Source(name="T", schema=chosen(table, **named).schema, relation=True)
    assert slide_of(Join(kind="inner", left=two, right=other)) == 2


@pytest.mark.parametrize("how", ["axis", "slide", "bounds"])
def test_four_means_of_which_three_are_equal_are_four_events(how: str) -> None:
    """7, 7, 7, 9: the mean of the results is 7.5, not that of two longest lifetimes, 8."""
    values = [6, 8, 7, 7, 5, 9, 9, 9]
    came = [insert("a", v, 0.5, start=5 * n, end=5 * n + 1) for n, v in enumerate(values)]
    stream = PhysicalStream(SCHEMA, (*came, stable(200)))
    avg = aggregate(slid(10, 10, columns=BOUNDS), BOUNDS, "a")
    inner: dict[str, Node] = {
        "axis": chosen(
            _average(POINTS, "v", "a", window=tumbling(Duration(10))),
            v="a",
        ),
        "slide": chosen(aggregate(slid(10, 10), (), "a"), v="a"),
        "bounds": chosen(avg, v="a"),
    }
    whole = _average(inner[how], "v", "mean", window=tumbling(Duration(100), 0))
    left = assert_agrees(whole, stream, batch_size=3)
    last = [row for batch in left for row in batch.payload.column("mean").to_pylist()]
    assert last == [7.5]


def _average(over: Node, column: str, name: str, **options: Any) -> ApplyOperator:
    module, arguments = parse_operator_call(f"avg({column})", over, default_library())
    return ApplyOperator.over(over, calls=(Call(module, arguments, (name,)),), **options)


@pytest.mark.parametrize("window", [CountByStart(2), CountByEnd(2)], ids=str)
def test_a_time_bound_does_not_go_with_windows_that_count(window: Any) -> None:
    call = Call(STARTS, (V,), ("said",))
    with pytest.raises(PlanError, match="time_bound") as raised:
        ApplyOperator(input=POINTS, window=window, calls=(call,), timestamps="time_bound")
    assert "'unchanged'" in str(raised.value)


def test_rows_are_edges_also_when_equal() -> None:
    """A signal that says 7, 7, 9: three edges of 2, 3 and 5 instants."""
    row = [insert("a", v, 0.5, start=t, end=t + 1) for v, t in ((7, 0), (7, 2), (9, 5), (0, 10))]
    held = rows(1, ("k",))
    call = Call(TIMED, (V,), ("said",))
    node = ApplyOperator.over(held, window=tumbling(Duration(100)), calls=(call,), clip="full")
    left = assert_agrees(node, PhysicalStream(SCHEMA, (*row, stable(200))), batch_size=1)
    said = [text for batch in left for text in batch.payload.column("said").to_pylist()]
    assert node.input == held
    assert said[0] == "0 100: (0, 10, 100) (7, 0, 2) (7, 2, 5) (9, 5, 10)"


def test_an_aggregate_by_the_start_of_a_session_alone_has_no_events() -> None:
    only = aggregate(SESSIONS, ("window_end",), "s")
    assert isinstance(only, Aggregation)
    assert not keeps_events(only)
