"""Every sink gets a legal stream, however a source is cut into parts and shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.compile import Emission, compile_plan
from anabranch.kernels.plan.stage import with_one_promise
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.elements import Adjust, Insert, batch_of
from anabranch.model.legality import LegalityChecker
from anabranch.model.logical import LogicalStream
from anabranch.model.time import Duration, Time
from anabranch.optimizer.common_parts import optimize_all
from anabranch.runtime.sinks.sinks import Begin, LogSink
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.sources.rows import arrivals_of
from anabranch.runtime.sources.spec import ELEMENTS
from anabranch.runtime.workers.job import Delivery
from anabranch.testing import PhysicalStream, elements_of
from anabranch.testing.physical import KitStable, PhysicalState, violations
from anabranch.testing.strategies import streams

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
BIDS = Source(name="bids", schema=SCHEMA)
OTHER = Source(name="other", schema=SCHEMA)
Make = Callable[..., Any]
Parts = list[list[EventBatch]]


def column(text: str) -> Expression:
    return Expression.parse(text, SCHEMA)


# Payloads of different events become equal: an event of the output is then any of them.
ONLY_K = Map(input=BIDS, columns=(("k", column("k % 2")),))
PLANS: dict[str, Node] = {
    "the source": BIDS,
    "a filter": Filter(input=BIDS, predicate=column("v > -2")),
    "a map": ONLY_K,
    "a union": Union(inputs=(BIDS, OTHER)),
    "a source that enters twice": Union(
        inputs=(BIDS, Filter(input=BIDS, predicate=column("k > 0")))
    ),
    "a window beside the source": Union(
        inputs=(TimeWindow(input=BIDS, size=Duration(3)), OTHER, BIDS)
    ),
}


@st.composite
def cut_streams(draw: st.DrawFn, *, only_points: bool = False) -> Parts:
    """A legal stream as batches of parts, in the order of the stream."""
    stream = draw(streams(SCHEMA, max_size=24, only_points=only_points))
    size = len(stream.elements)
    cuts = sorted(draw(st.lists(st.integers(0, size), max_size=2)))
    batches = []
    for low, high in zip([0, *cuts], [*cuts, size]):
        some = PhysicalStream(SCHEMA, stream.elements[low:high])
        inner = sorted(draw(st.lists(st.integers(0, high - low), min_size=0, max_size=6)))
        batches.append(some.batches(*inner))
    return batches


def jumbled(parts: Sequence[EventBatch], seed: int) -> list[EventBatch]:
    """The rows of a batch in any order, in as many parts; promises hold behind all of them."""
    random = np.random.default_rng(seed)
    whole = EventBatch.concat(parts)
    where = random.integers(0, len(parts), len(whole))
    order = random.permutation(len(whole))
    return [
        whole.take(order[where[order] == number]).with_stable(whole.stable)
        for number in range(len(parts))
    ]


class Reader:
    """Reads what a runner puts out by one way of delivery, and says what is wrong with it."""

    def __init__(self, runner: Any, deliver: Delivery) -> None:
        self.runner, self.deliver = runner, deliver
        schemas = [runner.job.plan.stages[place].schema for place in runner.job.plan.outputs]
        self.sinks = [LogSink(out) for out in runner.job.outs] if deliver == "log" else []
        for sink, schema in zip(self.sinks, schemas):
            sink.open(Begin(schema, "query", INTEGERS, fresh=True))

    def take(self) -> list[EventBatch]:
        """The outputs of the batch that has just run, as one who reads them finds them."""
        if self.deliver == "ship":
            return list(self.runner.outputs)
        for number, sink in enumerate(self.sinks):
            own = [each for each in self.runner.results if each.head.output == number]
            stable = Time(min(each.head.stable for each in own))
            sink.commit(self.runner.batch - 1, stable, own)
        return [[*LogFolder(sink.out).read()][-1] for sink in self.sinks]


def wrong_in(batches: Iterable[EventBatch]) -> list[str]:
    state = PhysicalState.empty()
    found: list[str] = []
    for batch in batches:
        found += violations(elements_of(batch), state)
        state.take(KitStable(batch.stable))
    return found


@pytest.mark.parametrize("deliver", ["ship", "log"])
@pytest.mark.parametrize("name", PLANS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=cut_streams(),
    more=cut_streams(),
    shards=st.integers(1, 4),
    seed=st.integers(0, 99),
    unordered=st.sets(st.sampled_from(["bids", "other"])),
    emit=st.sampled_from(["speculative", "speculative", "final"]),
)
def test_output_is_legal_for_any_parts_and_shards(
    sharded: Make,
    deliver: Delivery,
    name: str,
    batches: Parts,
    more: Parts,
    shards: int,
    seed: int,
    unordered: set[str],
    emit: Emission,
) -> None:
    runner = sharded(
        PLANS[name], shards=shards, seed=seed, deliver=deliver, unordered=unordered, emit=emit
    )
    reader = Reader(runner, deliver)
    found: list[EventBatch] = []
    for number in range(max(len(batches), len(more))):
        given = {"bids": batches[number : number + 1], "other": more[number : number + 1]}
        came = {
            source: jumbled(parts[0], seed) if source in unordered else parts[0]
            for source, parts in given.items()
            if parts and source in runner.job.plan.sources
        }
        runner.step(came)
        found += reader.take()
    assert wrong_in(found) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=cut_streams(), shards=st.integers(1, 3), seed=st.integers(0, 9), log=st.booleans())
def test_outputs_of_one_job_are_legal_each(
    sharded: Make, batches: Parts, shards: int, seed: int, log: bool
) -> None:
    plans = optimize_all([PLANS["a filter"], PLANS["the source"], ONLY_K])
    nodes = [plan.node for plan in plans]
    deliver: Delivery = "log" if log else "ship"
    runner = sharded(nodes, shards=shards, seed=seed, deliver=deliver)
    reader = Reader(runner, deliver)
    found = []
    for parts in batches:
        runner.step({"bids": parts})
        found.append(reader.take())
    for output in zip(*found):
        assert wrong_in(output) == []


ROW_PLANS: dict[str, Node] = {
    **PLANS,
    "sessions": SessionWindow(
        input=Source(name="points", schema=SCHEMA, only_points=True),
        gap=Duration(3),
        partition_by=(("k", column("k")),),
    ),
}


@pytest.mark.parametrize("name", ROW_PLANS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    shards=st.integers(1, 4),
    tasks=st.integers(0, 3),
    seed=st.integers(0, 99),
    unordered=st.booleans(),
)
def test_rows_for_spark_are_legal_in_the_order_of_their_columns(
    sharded: Make,
    name: str,
    data: st.DataObject,
    shards: int,
    tasks: int,
    seed: int,
    unordered: bool,
) -> None:
    batches = data.draw(cut_streams(only_points=name == "sessions"))
    plan = with_one_promise(compile_plan(ROW_PLANS[name]))
    names = plan.sources if unordered else ()
    runner = sharded(plan, shards=shards, seed=seed, deliver="rows", unordered=names)
    runner.job = replace(runner.job, tasks=tasks)
    tables = []
    for parts in batches:
        runner.step(dict.fromkeys(plan.sources, jumbled(parts, seed) if unordered else parts))
        tables += [runner.rows] if runner.rows.num_rows else []
    if not tables:
        return
    table = pa.concat_tables(tables).sort_by([("_batch", "ascending"), ("_position", "ascending")])
    places = list(zip(table["_batch"].to_pylist(), table["_position"].to_pylist()))
    assert len(set(places)) == len(places)
    [rows] = table.combine_chunks().to_batches()
    schema = plan.stages[plan.outputs[0]].schema
    came = arrivals_of(rows, schema, ELEMENTS, first=1, where="rows")
    assert LegalityChecker().feed(came) == []
    assert (came.stables[1:] > came.stables[:-1]).all()


def test_an_adjust_in_a_later_part_stands_behind_its_insert(sharded: Make) -> None:
    insert = batch_of([Insert((1, 1), Time(5), Time(9))], SCHEMA)
    adjusts = [
        batch_of([Adjust((1, 1), Time(5), Time(end), Time(end - 1))], SCHEMA) for end in (9, 8)
    ]
    ways: list[tuple[Delivery, int]] = [("ship", 2), ("log", 2), ("ship", 1), ("log", 1)]
    for deliver, shards in ways:
        runner = sharded(BIDS, shards=shards, deliver=deliver)
        reader = Reader(runner, deliver)
        runner.step({"bids": [insert, *adjusts]})
        [batch] = reader.take()
        assert [(m.end, m.new_end) for m in elements_of(batch)] == [(5, 9), (9, 8), (8, 7)]


def test_rows_without_an_order_are_added_up(sharded: Make) -> None:
    parts = [
        batch_of([Adjust((1, 1), Time(5), Time(8), Time(7))], SCHEMA),
        batch_of([Adjust((1, 1), Time(5), Time(9), Time(8))], SCHEMA),
        batch_of([Insert((1, 1), Time(5), Time(9)), Insert((2, 2), Time(5), Time(9))], SCHEMA),
        batch_of([Adjust((2, 2), Time(5), Time(9), Time(5))], SCHEMA),
    ]
    ways: list[Delivery] = ["ship", "log"]
    for deliver in ways:
        runner = sharded(BIDS, shards=2, deliver=deliver, unordered={"bids"})
        reader = Reader(runner, deliver)
        runner.step({"bids": parts})
        [batch] = reader.take()
        assert LogicalStream.of_batches([batch]) == LogicalStream.of([((1, 1), 5, 7)])
        assert len(batch) == 1
