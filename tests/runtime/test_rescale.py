"""A query goes on with another number of shards, and its answers do not show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, get_args
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kernels.busy import busy_streams
from tests.kernels.modules import ADD_ONLY, ADDING, FRAMED, LIFETIMES, PLAIN, TIMED
from tests.kernels.operators import OPERATORS
from tests.kernels.plans import SCHEMA, SOURCE, aggregate, plans

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.split import Split
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator, Call
from anabranch.algebra.modules.axis_window import (
    AxisWindow,
    CountByEnd,
    CountByStart,
    Hopping,
    Session,
    Snapshot,
)
from anabranch.algebra.modules.user_operator import UserOperator
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.source import Source
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.top_k import TopK
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.contract.kernel import Stateful
from anabranch.kernels.plan.compile import Emission, PhysicalPlan, compile_plan
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.trace import runs
from anabranch.model.batch import EventBatch
from anabranch.model.clock import Clock
from anabranch.model.logical import LogicalStream
from anabranch.model.netting import net
from anabranch.model.time import FOREVER, Duration, Time
from anabranch.runtime.query.rescale import Rescale, rescaled
from anabranch.runtime.sources.spec import Promise
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.layout import StateLayout, first_layout
from anabranch.testing import (
    PhysicalState,
    PhysicalStream,
    elements_of,
    schedules,
    sources_of,
    streams,
    violations,
)

Make = Callable[..., Any]
Steps: TypeAlias = list[dict[str, EventBatch]]

OTHER: Final = Source(name="T", schema=SCHEMA)
POINTS: Final = Source(name="S", schema=SCHEMA, only_points=True)
EVERYWHERE: Final[tuple[Emission, ...]] = ("speculative", "final")
"""Emissions for any plan; `watermark` is for windows of the time axis."""
EMISSIONS: Final = st.sampled_from(EVERYWHERE)


def of(text: str, over: Node = SOURCE) -> Expression:
    return Expression.parse(text, over.schema)


def join(kind: JoinKind, text: str | None) -> Join:
    """Both sides have all columns of SCHEMA; the right ones are called `k2` and so on."""
    named = tuple((f"{name}2", of(name, OTHER)) for name in SCHEMA.names)
    right = Map(input=OTHER, columns=named)
    predicate = (
        None if text is None else Expression.parse(text, pa.schema([*SCHEMA, *right.schema]))
    )
    return Join(kind=kind, left=SOURCE, right=right, predicate=predicate)


def select(over: Node, *names: str) -> Map:
    return Map(input=over, columns=tuple((name, of(name, over)) for name in names))


def first(over: Node, key: str, k: int = 2) -> TopK:
    by = (("part", of(key, over)),)
    return TopK(input=over, k=k, order_by=((of("v", over), True, False),), partition_by=by)


def sessions(over: Node = POINTS) -> SessionWindow:
    return SessionWindow(input=over, gap=Duration(3), partition_by=(("k", of("k", over)),))


def last(over: Node, slide: int, key: str = "k") -> CountWindow:
    by = (("k", of(key, over)),)
    return CountWindow(input=over, rows=2, slide=slide, partition_by=by, order_by=(of("v", over),))


PAIRS: Final = join("inner", "k = k2")
COUNTS: Final = aggregate(SOURCE, ("k",), "n", "lo")
BEGUN: Final = ToStream(input=COUNTS, kind="insertions")
TOGETHER: Final[dict[str, Node]] = {
    "sums of a join": aggregate(PAIRS, ("k", "v"), "n", "ax", "sx"),
    "extremes of a join": aggregate(PAIRS, ("v", "k"), "lox", "his"),
    "different values of a join": aggregate(PAIRS, ("k", "v"), "dx", "sdx"),
    "whole groups of a join": aggregate(PAIRS, ("k", "x"), "medv", "p", "t"),
    "the same groups": aggregate(PAIRS, ("k",), "n", "d", "lo", "med"),
    "the first rows of a join": first(select(PAIRS, "k", "v", "x2"), "k"),
    "distinct pairs": Distinct(input=select(PAIRS, "v", "k", "x2")),
    "first rows by an expression": aggregate(first(SOURCE, "abs(v)"), ("v",), "n", "d"),
    "first rows by a text": aggregate(first(SOURCE, "upper(k)"), ("k", "v"), "n", "hi"),
    "long events": Coalesce(input=select(COUNTS, "n", "k")),
    "pieces": Split(input=select(COUNTS, "n", "k"), length=Duration(2)),
    "what begins": BEGUN,
    "signs and back": FromSigned(input=ToSigned(input=select(COUNTS, "n", "k"))),
    "shorter": AlterLifetime(input=select(COUNTS, "n", "k"), at_most=Duration(2)),
    "cut": Cleanse(input=select(COUNTS, "n", "k")),
    "whole": Cleanse(input=select(COUNTS, "n", "k"), cut=False),
    "pieces of whole events": Split(
        input=Cleanse(input=select(COUNTS, "n", "k"), cut=False), length=Duration(2)
    ),
    "last rows of begun counts": CountWindow(
        input=BEGUN, rows=2, slide=2, partition_by=(("k", of("k", BEGUN)), ("n", of("n", BEGUN)))
    ),
    "counts per last rows": aggregate(last(POINTS, 2), ("k", "v"), "n", "his"),
    "counts per session": aggregate(sessions(), ("k",), "n", "dx"),
    "texts per session": aggregate(sessions(), ("k", "v"), "t", "hi"),
    "sessions of begun counts": SessionWindow(
        input=BEGUN, gap=Duration(3), partition_by=(("n", of("n", BEGUN)), ("k", of("k", BEGUN)))
    ),
    "three levels": aggregate(aggregate(PAIRS, ("k", "v"), "n"), ("v",), "n"),
    "without its key": select(COUNTS, "n"),
    "without the key of a join": select(join("left", "k = k2 AND v = v2"), "x", "x2"),
    "neither side for sure": join("full", "k = k2"),
    "neither side for sure, by an expression": join("full", "upper(k) = k2"),
    "the right side for sure": join("right", "v = v2"),
    "what is near": select(join("inner", "abs(v - v2) <= 1"), "x", "x2", "v"),
    "with all of the other side": replace(join("inner", "k = k2"), broadcast="right"),
    "with all of a part": select(replace(join("semi", "k = k2"), broadcast="right"), "v"),
    "whoever has no partner anywhere": join("left", "v < v2 OR k = k2"),
}
"""Several operators in a stage, and keys that are gone before the end of it."""


def windowed(over: Node, window: AxisWindow, module: UserOperator, **options: Any) -> ApplyOperator:
    call = Call(module, (of("v", over),), ("said",))
    by = (("k", of("k", over)),)
    return ApplyOperator(input=over, window=window, calls=(call,), group_by=by, **options)


WINDOWED: Final[dict[str, Node]] = {
    "lists of points": windowed(POINTS, Hopping(Duration(5), Duration(2)), PLAIN),
    "states of points": windowed(POINTS, Hopping(Duration(4), Duration(4)), ADDING),
    "points in open windows": windowed(
        POINTS, Hopping(Duration(6), Duration(3)), TIMED, open_windows=True
    ),
    "snapshots": windowed(SOURCE, Snapshot(), TIMED, clip="full"),
    "states of sessions": windowed(SOURCE, Session(Duration(3)), ADDING),
    "tables of sessions": windowed(SOURCE, Session(Duration(2)), FRAMED),
    "so many starts": windowed(SOURCE, CountByStart(2), ADD_ONLY),
    "so many ends": windowed(
        SOURCE, CountByEnd(2), LIFETIMES, timestamps="unchanged", clip="right"
    ),
}
"""Windows of the time axis whose states can be shared out anew."""

EAGERNESS: Final = st.sampled_from([(0, 20_000), (4, 0), (4_096, 20_000)])
"""From how many rows on runs stay apart, and loops are compiled."""

FIXTURES: Final = settings(
    max_examples=max(
        6, settings.get_profile(settings.get_current_profile_name()).max_examples // 4
    ),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def told(node: Node, *, busy: bool = False) -> st.SearchStrategy[Steps]:
    """Few elements with many edges, or also many, of which more meet."""

    def some(source: Source) -> st.SearchStrategy[PhysicalStream]:
        few = streams(SCHEMA, max_size=12, only_points=source.only_points, longest=9)
        return few | busy_streams(most=60) if busy and not source.only_points else few

    return schedules(**{source.name: some(source) for source in sources_of(node)})


def parts(step: Mapping[str, EventBatch]) -> dict[str, list[EventBatch]]:
    return {name: [batch] for name, batch in step.items()}


def check(
    sharded: Make, node: Node, data: st.DataObject, emit: Emission, *, busy: bool = False
) -> None:
    small, many = data.draw(EAGERNESS)
    with (
        patch.object(runs, "MERGE_ALL_UP_TO_ROWS", small),
        patch.object(columns, "COMPILE_FROM_ROWS", many),
    ):
        check_answers(sharded, node, data.draw(told(node, busy=busy)), data, emit)


def check_answers(
    sharded: Make, node: Node, steps: Steps, data: st.DataObject, emit: Emission
) -> None:
    """After every batch, with whatever number of shards, the answer is that of one process."""
    number = st.integers(1, 5)
    local, runner = LocalRunner(node, emit), sharded(node, shards=data.draw(number), emit=emit)
    state, expected = PhysicalState.empty(), []
    late = emit == "final" or any(each.holds_back for each in node.walk())
    for step in steps:
        if data.draw(st.booleans()):
            runner.rescale(data.draw(number))
        expected.append(local.step(step))
        found = runner.step(parts(step))
        assert found.stable == expected[-1].stable
        assert not list(violations(elements_of(net(found)), state))
        state.stable = found.stable
        wanted, got = LogicalStream.of_batches(expected), LogicalStream.of(state.events.elements())
        assert got.difference(wanted, before=found.stable if late else FOREVER) == ""


@pytest.mark.parametrize("operator", OPERATORS)
@FIXTURES
@given(data=st.data(), emit=EMISSIONS)
def test_an_operator_goes_on_with_other_shards(
    sharded: Make, operator: str, data: st.DataObject, emit: Emission
) -> None:
    check(sharded, data.draw(OPERATORS[operator]), data, emit)


@pytest.mark.parametrize("name", TOGETHER)
@FIXTURES
@given(data=st.data(), emit=EMISSIONS)
def test_operators_in_one_stage_go_on_with_other_shards(
    sharded: Make, name: str, data: st.DataObject, emit: Emission
) -> None:
    check(sharded, TOGETHER[name], data, emit, busy=True)


@pytest.mark.parametrize("name", WINDOWED)
@FIXTURES
@given(data=st.data(), emit=st.sampled_from(get_args(Emission)))
def test_windows_and_modules_go_on_with_other_shards(
    sharded: Make, name: str, data: st.DataObject, emit: Emission
) -> None:
    check(sharded, WINDOWED[name], data, emit, busy=True)


@FIXTURES
@given(node=plans(), data=st.data(), emit=EMISSIONS)
def test_a_whole_plan_goes_on_with_other_shards(
    sharded: Make, node: Node, data: st.DataObject, emit: Emission
) -> None:
    check(sharded, node, data, emit)


def holds_whole_events(node: Node) -> bool:
    """Whole events that are held back leave together with others of their shard."""
    return any(isinstance(each, Cleanse) and not each.cut for each in node.walk())


@pytest.mark.parametrize(
    "name", [n for n, node in TOGETHER.items() if not holds_whole_events(node)]
)
@FIXTURES
@given(data=st.data(), emit=EMISSIONS)
def test_a_repeated_batch_gives_the_same_elements(
    sharded: Make, name: str, data: st.DataObject, emit: Emission
) -> None:
    node = TOGETHER[name]
    *steps, end = data.draw(told(node))
    runner = sharded(node, shards=3, emit=emit)
    for step in steps:
        runner.step(parts(step))
    once = runner.attempt(parts(end))
    runner.rescale(data.draw(st.sampled_from([1, 2, 5])))
    again = runner.step(parts(end))
    assert Counter(elements_of(again)) == Counter(elements_of(once))
    assert again.stable == once.stable


def test_every_key_is_in_its_shard(sharded: Make) -> None:
    """What is remembered lies where it would have been put with that number from the start."""
    rows = [(f"k{number % 7}", number % 5, float(number)) for number in range(200)]
    payload = pa.RecordBatch.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA
    )
    start = np.arange(200)
    batch = EventBatch(payload, start, start, start + 500)
    node = aggregate(SOURCE, ("k",), "n", "d", "lo", "med")
    moved, there = sharded(node, shards=2), sharded(node, shards=5)
    for runner in (moved, there):
        runner.step({"S": [batch]})
    moved.rescale(5)
    stage, shards = moved.job.plan.stages[0], range(5)
    held_by = [each.job.stage_store(0).before(1, shards) for each in (moved, there)]
    for shard in shards:
        one, other = (before.state(stage, shard)[0].runs for before in held_by)
        assert {name: sum(map(len, held)) for name, held in one.items()} == {
            name: sum(map(len, held)) for name, held in other.items()
        }
        for name in one:
            ids = [
                {value for run in each[name] for value in run.rows.column("__id").to_pylist()}
                for each in (one, other)
            ]
            assert ids[0] == ids[1]


def test_progress_is_what_it_was(sharded: Make) -> None:
    second = 1_000_000
    promises = {
        "S": Promise(source="S", heartbeat=Duration(3 * second), clock=Clock(second)),
        "T": Promise(source="T"),
    }
    node = aggregate(join("inner", "k = k2"), ("k", "v"), "n")
    runner = sharded(node, promises=promises, shards=2)
    empty = EventBatch.empty(SCHEMA)
    runner.step({"S": [empty.with_stable(Time(5))], "T": [empty.with_stable(Time(9))]})
    runner.step({}, passed={"S": 2 * second})
    before = runner.job.stage_store(0).lead(2)
    runner.rescale(4)
    for shard in range(4):
        after = runner.job.stage_store(0).before(2, range(4)).manifest(shard)
        assert (after.sources, after.silent) == (before.sources, before.silent)
        assert after.stable == 5
        stables = [[trace.stable for trace in each.kernels] for each in (after, before)]
        assert stables[0] == stables[1]
    # The second that was waited for counts with the two before.
    assert runner.step({}, passed={"S": second}).stable == 8


def test_a_stage_that_is_one_shard_stays_as_it_is(sharded: Make) -> None:
    node = aggregate(aggregate(SOURCE, ("k",), "n"), (), "n")
    runner = sharded(node, shards=3)
    runner.step({"S": [EventBatch.empty(SCHEMA, Time(1))]})
    runner.rescale(2)
    folders = {name: home.folder for name, home in runner.job.homes.items()}
    assert folders == {"0-aggregate": "0-aggregate.s1", "1-aggregate": "1-aggregate"}


def test_all_that_is_remembered_tells_its_shard() -> None:
    for name, node in TOGETHER.items():
        for emit in EVERYWHERE:
            plan = compile_plan(node, emit=emit)
            for stage in plan.stages:
                kernels = [each for each in stage.kernels if isinstance(each, Stateful)]
                assert all(kernel.route is not None for kernel in kernels), name


def test_final_emission_stays_with_what_it_is_for() -> None:
    """A key that is projected away leaves after what is final has been found."""
    one = compile_plan(TOGETHER["without its key"], emit="final")
    assert [kernel.label.split()[0] for kernel in one.stages[0].kernels] == [
        "Aggregate",
        "Final",
        "Map",
    ]
    assert len(one.stages) == 1
    # Shards promise by the sessions that they have, and what was released must be known of all.
    apart = compile_plan(TOGETHER["counts per session"], emit="final")
    assert [stage.name for stage in apart.stages] == ["0-session-window", "1-final"]


def test_windows_on_a_grid_over_lifetimes_keep_their_shards() -> None:
    """Shards have begun their windows at different times; points reach into none."""
    call = Call(PLAIN, (of("v"),), ("said",))

    def plan(over: Node, window: AxisWindow) -> PhysicalPlan:
        return compile_plan(ApplyOperator(input=over, window=window, calls=(call,)))

    change = Rescale(before=2, after=3, batch=1, epoch=1)
    folder = Folder.at("/nowhere")
    grid = Hopping(Duration(10), Duration(5))
    with pytest.raises(PlanError, match="the number of shards cannot change") as caught:
        rescaled(plan(SOURCE, grid), StateLayout(), folder, change)
    assert caught.value.where == "ApplyModule listing(v) AS said per HOPPING 10 every 5"
    assert caught.value.hint.endswith(
        "keep the number of shards, or start the query again with a new checkpoint"
    )
    for allowed in (plan(POINTS, grid), plan(SOURCE, Snapshot())):
        layout = first_layout(allowed, "query")
        assert rescaled(allowed, layout, folder, change).stages
