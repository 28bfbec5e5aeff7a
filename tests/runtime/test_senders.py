"""Senders of one edge see different rows; what they send goes together all the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kernels.hard_floats import ALL_SUMS, exact_steps, hard_streams
from tests.kernels.operators import OPERATORS, SHORT
from tests.kernels.plans import SCHEMA, SOURCE, aggregate

from anabranch.algebra.node import Node
from anabranch.errors import EngineError
from anabranch.kernels.aggregate.aggregate import AggregateKernel
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER
from anabranch.runtime.elements.exchange import Parcel, address, gather, pack
from anabranch.runtime.messages.heads import TimeHead
from anabranch.runtime.workers.sending import source_parcels
from anabranch.testing import schedules, streams
from anabranch.testing.oracle import sources_of

Make = Callable[..., Any]
SETTINGS = settings(
    max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
few_rows = pytest.mark.parametrize("sample_rows", [1, 2])
"""Chunks of so few rows, twice that or more, choose by themselves whether to add up equal rows."""


def chunk(keys: Sequence[str | None], values: Sequence[int | None], *, points: bool) -> EventBatch:
    rows = len(keys)
    payload = pa.RecordBatch.from_arrays(
        [
            pa.array(keys, pa.string()),
            pa.array(values, pa.int64()),
            pa.array([None if value is None else value / 4 for value in values], pa.float64()),
        ],
        schema=SCHEMA,
    )
    start = np.zeros(rows, np.int64)
    return EventBatch(payload, start, start, start + (1 if points else 5))


def chunks(*, points: bool) -> list[EventBatch]:
    """No rows, one, all equal, all different, all NULL, and one in many."""
    different = [f"k{number}" for number in range(8)]
    return [
        chunk([], [], points=points),
        chunk(["a"], [1], points=points),
        chunk(["a"] * 8, [1] * 8, points=points),
        chunk(different, list(range(8)), points=points),
        chunk([None] * 8, [None] * 8, points=points),
        chunk([*different[:7], None], [*range(7), None], points=points),
    ]


def legal_steps(draw: Callable[..., Any], name: str, node: Node) -> list[dict[str, EventBatch]]:
    longest = 12 if name in SHORT else FOREVER
    drawn = {
        source.name: streams(
            SCHEMA, max_size=14, only_points=source.only_points, longest=longest, odd_floats=False
        )
        for source in sources_of(node)
    }
    steps: list[dict[str, EventBatch]] = draw(schedules(**drawn))
    return steps


@few_rows
@pytest.mark.parametrize("name", OPERATORS)
@SETTINGS
@given(data=st.data())
def test_what_is_sent_has_one_schema_whatever_the_rows_are(
    name: str, sample_rows: int, data: st.DataObject
) -> None:
    plan = compile_plan(data.draw(OPERATORS[name]))
    with patch.object(columns, "SAMPLE_ROWS", sample_rows):
        for place, stage in enumerate(plan.stages):
            for number, edge in enumerate(stage.edges):
                kind, upstream = edge.upstream.kind, edge.upstream.name
                if kind != "source":
                    continue
                points = plan.sources[upstream].only_points
                sent: list[Parcel] = []
                for part, rows in enumerate(chunks(points=points)):
                    payload = rows.payload.select(edge.columns or SCHEMA.names)
                    prepared = stage.prepare(number, rows.with_payload(payload))
                    assert prepared.schema == stage.prepared_schema(number)
                    sent += address(
                        prepared,
                        target=place,
                        edge=number,
                        part=part,
                        shards=1,
                        keyed=True,
                    )
                gather(sent, lambda: no_rows(SCHEMA))


@few_rows
@pytest.mark.parametrize("name", OPERATORS)
@SETTINGS
@given(data=st.data(), shards=st.integers(1, 3))
def test_parts_that_decide_differently_mean_what_one_process_does(
    sharded: Make, name: str, sample_rows: int, data: st.DataObject, shards: int
) -> None:
    node = data.draw(OPERATORS[name])
    steps = legal_steps(data.draw, name, node)
    local, runner = LocalRunner(node), sharded(node, shards=shards)
    expected, found = [], []
    for step in steps:
        expected.append(local.step(step))
        with patch.object(columns, "SAMPLE_ROWS", sample_rows):
            parts = {source: cut_in_parts(data.draw, batch) for source, batch in step.items()}
            found.append(runner.step(parts))
        difference = LogicalStream.of_batches(found).agrees_with(LogicalStream.of_batches(expected))
        assert difference is None


@SETTINGS
@given(
    data=st.data(),
    batches=hard_streams(),
    names=st.lists(st.sampled_from(ALL_SUMS), min_size=1, max_size=3, unique=True),
    sample_rows=st.sampled_from([1, 2, 4_096]),
)
def test_sums_are_the_same_to_the_last_bit_for_any_parts_and_shards(
    sharded: Make,
    data: st.DataObject,
    batches: list[EventBatch],
    names: list[str],
    sample_rows: int,
) -> None:
    node = aggregate(SOURCE, ("k",), *names)
    whole = LogicalStream.of_batches([LocalRunner(node).step({"S": EventBatch.concat(batches)})])
    runner = sharded(node, shards=data.draw(st.integers(1, 4)))
    found = []
    with patch.object(columns, "SAMPLE_ROWS", sample_rows):
        for batch in batches:
            if data.draw(st.booleans()):
                runner.rescale(data.draw(st.integers(1, 4)))
            found.append(runner.step({"S": cut_in_parts(data.draw, batch)}))
    assert exact_steps(LogicalStream.of_batches(found)) == exact_steps(whole)


def cut_in_parts(draw: Callable[..., Any], batch: EventBatch) -> list[EventBatch]:
    """A batch in parts that know nothing of each other."""
    cuts = sorted(draw(st.lists(st.integers(0, len(batch)), max_size=3)))
    bounds = [0, *cuts, len(batch)]
    return [batch.take(np.arange(low, high)) for low, high in pairwise(bounds)]


def test_rows_of_another_schema_are_refused_where_they_are_made() -> None:
    (stage,) = compile_plan(aggregate(SOURCE, ("k",), "n", "s")).stages
    batch = chunk(["a"], [1], points=False)
    wrong = stage.prepare(0, batch).append_column("more", pa.array([1]))

    class Wrong:
        def __call__(self, *_: object) -> pa.RecordBatch:
            return wrong

    with (
        patch.object(AggregateKernel, "prepare", Wrong()),
        pytest.raises(EngineError, match=r"stage .*, edge 0 from source S: more int64 instead of"),
    ):
        stage.prepare(0, batch)


def test_rows_of_another_schema_are_refused_where_they_arrive(sharded: Make) -> None:
    runner = sharded(aggregate(SOURCE, ("k",), "n", "s"), shards=1)
    other = compile_plan(aggregate(SOURCE, ("v",), "n", "s"))
    job = replace(runner.job, plan=replace(other, outputs=runner.job.plan.outputs))
    sent = _sent_by(job, chunk(["a"], [1], points=False))
    with pytest.raises(EngineError, match="do not have the columns that it declares") as refused:
        runner.step({}, sent=sent)
    assert refused.value.where.startswith("stage 0-aggregate, edge 0 from source S: ")


def _sent_by(job: Any, batch: EventBatch) -> list[pa.RecordBatch]:
    return list(pack(source_parcels(job, Address.source("S"), batch, TimeHead("S", 0), part=0)))
