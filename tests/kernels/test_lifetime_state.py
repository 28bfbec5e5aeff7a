"""What operators on lifetimes remember: what may still matter, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.split import Split
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.to_stream import ToStream
from anabranch.kernels.trace import runs
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER, Duration, Time
from anabranch.testing import (
    LocalRunner,
    PhysicalState,
    PhysicalStream,
    batchings,
    elements_of,
    insert,
    stable,
    streams,
    violations,
)
from tests.kernels.plans import SCHEMA, SOURCE

NODES: list[Node] = [
    Split(input=SOURCE, length=Duration(2**62)),
    ToStream(input=SOURCE, kind="insertions"),
    ToStream(input=SOURCE, kind="deletions"),
    ToStream(input=SOURCE, kind="deletions", anchor="first_invalid"),
    FromSigned(input=ToSigned(input=SOURCE)),
    Cleanse(input=SOURCE, cut=False),
    AlterLifetime(input=SOURCE, duration=Duration(3)),
    AlterLifetime(input=SOURCE, extend=Duration(3)),
]


def steps(node: Node, batches: list[EventBatch]) -> Iterator[tuple[LocalRunner, PhysicalState]]:
    """Run a plan; after every batch, the runner and the events that came."""
    runner, came = LocalRunner(node), PhysicalState.empty()
    for batch in batches:
        runner.step({"S": batch})
        assert not list(violations(elements_of(batch), came))
        came.stable = max(came.stable, batch.stable)
        yield runner, came


@pytest.mark.parametrize("node", NODES, ids=[node.label for node in NODES])
@given(batches=streams(SCHEMA).flatmap(batchings))
def test_after_the_end_nothing_is_held(node: Node, batches: list[EventBatch]) -> None:
    runner = LocalRunner(node)
    for batch in batches:
        runner.step({"S": batch})
    runner.step({"S": EventBatch.empty(SCHEMA, FOREVER)})
    endless = LogicalStream.of_batches(batches).snapshot(FOREVER - 1)
    forgets = isinstance(node, Split | Cleanse)
    assert (endless and not forgets) or runner.state_rows() == 0


@given(streams(SCHEMA).flatmap(batchings))
def test_a_split_remembers_open_lifetimes(batches: list[EventBatch]) -> None:
    for runner, came in steps(Split(input=SOURCE, length=Duration(2**62)), batches):
        open_still = {event for event in came.events if event[2] == FOREVER}
        assert runner.state_rows() == (0 if came.stable == FOREVER else len(open_still))


@given(streams(SCHEMA).flatmap(batchings))
def test_a_cleanse_remembers_what_it_holds_back(batches: list[EventBatch]) -> None:
    for runner, came in steps(Cleanse(input=SOURCE, cut=False), batches):
        frozen = {event for event in came.events if event[2] < came.stable}
        first = min((start for _, start, _ in came.events.keys() - frozen), default=FOREVER)
        held = {event for event in came.events if event not in frozen or event[1] > first}
        assert runner.state_rows() == (0 if came.stable == FOREVER else len(held))


def test_signs_that_add_up_to_nothing_are_forgotten() -> None:
    schema = pa.schema([("k", pa.int64()), ("sign", pa.int64())])
    node = FromSigned(input=Source(name="S", schema=schema))
    moves = [
        insert(key, sign, start=at, end=at + 1)
        for key in range(50)
        for sign, at in ((1, key), (-1, key + 5))
    ]
    runner = LocalRunner(node)
    runner.step({"S": PhysicalStream(schema, (*moves, stable(0))).batches()[0]})
    assert runner.state_rows() == 200
    runner.step({"S": EventBatch.empty(schema, Time(60))})
    assert runner.state_rows() == 0


@pytest.mark.parametrize("small", [0, runs.MERGE_ALL_UP_TO_ROWS])
@pytest.mark.parametrize("node", NODES, ids=[node.label for node in NODES])
def test_a_long_run_holds_a_bounded_number_of_rows(
    node: Node, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MERGE_ALL_UP_TO_ROWS", small)
    runner, held = LocalRunner(node), []
    for number in range(200):
        start = np.arange(number * 10, number * 10 + 10)
        values = {"k": [str(n % 3) for n in start.tolist()], "v": start % 7, "x": start / 4}
        payload = pa.RecordBatch.from_pydict(values, schema=SCHEMA)
        runner.step({"S": EventBatch(payload, start, start, start + 15, Time(number * 10))})
        held.append(runner.state_rows())
    assert max(held[100:]) <= 1.5 * max(held[20:100], default=0) + 1
    assert max(held) < 2_000
