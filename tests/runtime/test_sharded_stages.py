from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.errors import EngineError
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.compile import Emission, compile_plan
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.optimizer.common_parts import optimize_all
from anabranch.runtime.sources.spec import Promise
from anabranch.testing import elements_of

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
BIDS = Source(name="bids", schema=SCHEMA)
OTHER = Source(name="other", schema=SCHEMA)

Make = Callable[..., Any]


def column(text: str, schema: pa.Schema = SCHEMA) -> Expression:
    return Expression.parse(text, schema)


def per_key(input: Node) -> Aggregation:
    return Aggregation(
        input=input,
        group_by=(("k", column("k", input.schema)),),
        aggregates=(
            ("n", AggregateCall(function="count")),
            ("top", AggregateCall(function="max", argument=column("v", input.schema))),
        ),
    )


def over_all(input: Node) -> Aggregation:
    return Aggregation(
        input=input,
        aggregates=(
            ("keys", AggregateCall(function="count")),
            ("best", AggregateCall(function="max", argument=column("top", input.schema))),
        ),
    )


def by_count(input: Node) -> Aggregation:
    return Aggregation(
        input=input,
        group_by=(("n", column("n", input.schema)),),
        aggregates=(("keys", AggregateCall(function="count")),),
    )


WINDOWED = TimeWindow(input=BIDS, size=Duration(5))
PLANS: dict[str, Node] = {
    "no stage with memory": Filter(input=BIDS, predicate=column("v > 1")),
    "one keyed stage": per_key(WINDOWED),
    "a stage that is one shard": over_all(per_key(WINDOWED)),
    "two keyed stages": by_count(per_key(WINDOWED)),
    "a source that enters twice": Coalesce(input=Union(inputs=(BIDS, WINDOWED))),
    "a source that passes a stage": Union(
        inputs=(per_key(WINDOWED), per_key(Filter(input=BIDS, predicate=column("v > 2"))))
    ),
    "two sources": per_key(Union(inputs=(BIDS, OTHER))),
}


def insert(rows: list[tuple[int, int, int, int]], stable: int = BEGINNING) -> EventBatch:
    """Inserts (k, v, start, end), then a stable point."""
    columns = list(zip(*rows)) or [(), (), (), ()]
    payload = pa.RecordBatch.from_arrays(
        [pa.array(values, pa.int64()) for values in columns[:2]], schema=SCHEMA
    )
    start, end = (np.array(times, np.int64) for times in columns[2:])
    return EventBatch(payload, start, start, end, Time(stable))


events = st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 6), st.integers(1, 5)).map(
    lambda e: (e[0], e[1], e[2], e[2] + e[3])
)


@st.composite
def legal_batches(draw: st.DrawFn) -> list[list[EventBatch]]:
    """Batches in parts: starts are relative to the last stable point, so nothing is late."""
    batches, stable = [], 0
    for _ in range(draw(st.integers(1, 4))):
        parts = draw(st.lists(st.lists(events, max_size=5), min_size=1, max_size=3))
        shifted = [[(k, v, s + stable, e + stable) for k, v, s, e in part] for part in parts]
        stable += draw(st.integers(0, 4))
        batches.append([insert(part, stable) for part in shifted])
    return batches


@pytest.mark.parametrize("name", PLANS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=legal_batches(), shards=st.integers(1, 4), seed=st.integers(0, 99))
def test_shards_mean_what_one_process_does(
    sharded: Make, name: str, batches: list[list[EventBatch]], shards: int, seed: int
) -> None:
    node = PLANS[name]
    local, runner = LocalRunner(node), sharded(node, shards=shards, seed=seed)
    expected, found = [], []
    for parts in batches:
        whole = {"bids": EventBatch.concat(parts)}
        expected.append(local.step(whole))
        found.append(runner.step({"bids": parts}))
        assert found[-1].stable == expected[-1].stable
        difference = LogicalStream.of_batches(found).agrees_with(LogicalStream.of_batches(expected))
        assert difference is None


@pytest.mark.parametrize("name", PLANS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), batches=legal_batches())
def test_any_number_of_tasks_shares_the_shards(
    sharded: Make, name: str, data: st.DataObject, batches: list[list[EventBatch]]
) -> None:
    one, other = sharded(PLANS[name], shards=4), sharded(PLANS[name], shards=4)
    for parts in batches:
        other.job = replace(other.job, tasks=data.draw(st.integers(1, 5)))
        came = dict.fromkeys(one.job.plan.sources, parts)
        expected, found = one.step(came), other.step(came)
        assert found.stable == expected.stable
        assert elements_of(found) == elements_of(expected)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(st.sampled_from(list(PLANS)), min_size=2, max_size=4),
    batches=legal_batches(),
    shards=st.integers(1, 3),
    emit=st.sampled_from(["speculative", "final"]),
)
def test_plans_that_run_together_mean_what_each_means_alone(
    sharded: Make, names: list[str], batches: list[list[EventBatch]], shards: int, emit: Emission
) -> None:
    nodes = [plan.node for plan in optimize_all([PLANS[name] for name in names])]
    alone = [LocalRunner(PLANS[name], emit) for name in names]
    runner = sharded(nodes, shards=shards, emit=emit)
    expected: list[list[EventBatch]] = [[] for _ in names]
    found: list[list[EventBatch]] = [[] for _ in names]
    for parts in batches:
        came = dict.fromkeys(runner.job.plan.sources, parts)
        runner.step(came)
        for place, each in enumerate(alone):
            whole = {name: EventBatch.concat(parts) for name in each.plan.sources}
            expected[place].append(each.step(whole))
            found[place].append(runner.outputs[place])
            assert found[place][-1].stable == expected[place][-1].stable
            one, other = map(LogicalStream.of_batches, (found[place], expected[place]))
            assert one.agrees_with(other) is None


def test_what_plans_have_in_common_is_kept_once() -> None:
    names = ["one keyed stage", "a stage that is one shard", "two keyed stages"]
    nodes = [plan.node for plan in optimize_all([PLANS[name] for name in names])]
    plan = compile_plan(*nodes)
    assert [stage.name for stage in plan.stages] == ["0-aggregate", "1-aggregate", "2-aggregate"]
    assert plan.outputs == (0, 1, 2)
    assert {edge.upstream for stage in plan.stages[1:] for edge in stage.edges} == {
        Address.stage("0-aggregate")
    }


@pytest.mark.parametrize("name", PLANS)
def test_a_repeated_batch_gives_the_same_elements_and_the_same_files(
    sharded: Make, name: str, tmp_path: Path
) -> None:
    runner = sharded(PLANS[name], folder=tmp_path / "it")
    steps = [
        {"bids": [insert([(1, 2, 0, 4), (2, 3, 1, 9)], 1), insert([(3, 1, 2, 5)], 1)]},
        {"bids": [insert([(1, 9, 3, 8)], 3)], "other": [insert([(1, 1, 2, 3)], 2)]},
    ]
    steps = [{k: v for k, v in s.items() if k in runner.job.plan.sources} for s in steps]
    runner.step(steps[0])
    first = runner.attempt(steps[1])
    files = {p: p.read_bytes() for p in (tmp_path / "it").rglob("*.arrow")}
    for until in (1, 2, 99):
        runner.attempt(steps[1], until=until)
    again = runner.attempt(steps[1])
    assert again.payload.equals(first.payload)
    assert again.stable == first.stable
    for times in ("start", "end", "new_end"):
        assert np.array_equal(getattr(again, times), getattr(first, times))
    assert {p: p.read_bytes() for p in (tmp_path / "it").rglob("*.arrow")} == files


def test_a_source_without_news_keeps_its_promise_and_holds_back_the_output(sharded: Make) -> None:
    runner = sharded(PLANS["two sources"])
    assert runner.step({"bids": [insert([(1, 1, 0, 3)], 5)]}).stable == BEGINNING
    assert runner.step({"other": [insert([], 3)]}).stable == 3
    assert runner.step({"bids": [insert([], 9)]}).stable == 3
    assert runner.step({"other": [insert([], 7)]}).stable == 7


def test_an_ended_source_does_not_hold_back_others(sharded: Make) -> None:
    runner = sharded(PLANS["two sources"])
    runner.step({"bids": [insert([(1, 1, 0, 3)], 5)]})
    assert runner.step({"other": [insert([])]}, ends=["other"]).stable == 5
    assert runner.step({"bids": [insert([])]}, ends=["bids"]).stable == FOREVER


def test_a_declared_delay_makes_progress(sharded: Make) -> None:
    promise = Promise(source="bids", delay=Duration(3))
    runner = sharded(per_key(BIDS), promises={"bids": promise})
    assert runner.step({"bids": [insert([(1, 1, 10, 12)]), insert([(1, 1, 4, 5)])]}).stable == 7
    assert runner.step({"bids": [insert([(1, 1, 8, 12)])]}).stable == 7


@pytest.mark.parametrize(
    ("policy", "left", "late", "adjusted"),
    [
        ("drop", [], 2, 0),
        ("adjust", [(10, 15)], 1, 1),
    ],
)
def test_late_rows_are_judged_by_the_batches_before(
    sharded: Make, policy: Any, left: list[tuple[int, int]], late: int, adjusted: int
) -> None:
    promise = Promise(source="bids", delay=Duration(0), late=policy)
    runner = sharded(per_key(BIDS), promises={"bids": promise}, shards=2)
    runner.step({"bids": [insert([(7, 1, 10, 11)])]})
    out = runner.step({"bids": [insert([(1, 1, 3, 15), (1, 1, 4, 9)])]})
    assert list(zip(out.start.tolist(), out.new_end.tolist())) == left
    counters = runner.heads[0].counters[-1].sources["bids"]
    assert (counters.late, counters.adjusted, counters.rows) == (late, adjusted, 2)


def test_old_versions_and_runs_are_removed(sharded: Make, tmp_path: Path) -> None:
    runner = sharded(PLANS["two keyed stages"], folder=tmp_path / "it", shards=2)
    counts = []
    for batch in range(40):
        runner.step({"bids": [insert([(batch % 3, 1, batch, batch + 2)], batch - 2)]})
        counts.append(sum(1 for _ in (tmp_path / "it").rglob("*.*")))
    assert max(counts[20:]) <= max(counts[10:20])
    assert max(counts) < 100


def test_nothing_that_cannot_matter_stays_in_the_state(sharded: Make) -> None:
    runner = sharded(PLANS["two keyed stages"], shards=2)
    for batch in range(10):
        runner.step({"bids": [insert([(batch, 1, batch, batch + 2)], batch - 2)]})
    runner.step({"bids": [insert([], FOREVER)]})
    rows = [each.state_rows for head in runner.heads for each in head.counters]
    assert sum(rows) == 0


def test_lost_state_is_noticed(sharded: Make, tmp_path: Path) -> None:
    runner = sharded(per_key(BIDS), folder=tmp_path / "it", shards=1)
    runner.step({"bids": [insert([(1, 1, 0, 3)])]})
    shutil.rmtree(tmp_path / "it" / "state")
    with pytest.raises(EngineError, match="state before batch 1 is missing"):
        runner.step({"bids": [insert([(1, 1, 1, 3)])]})
