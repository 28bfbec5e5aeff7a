"""Split keeps every snapshot and cuts lifetimes where it says."""

from __future__ import annotations

import contextlib
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.forms.split import Split
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.errors import StreamError
from anabranch.kernels.lifetimes import split
from anabranch.kernels.lifetimes.split import KeepKernel
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER, Duration
from anabranch.testing import (
    LocalRunner,
    PhysicalState,
    PhysicalStream,
    adjust,
    assert_agrees,
    batchings,
    elements_of,
    insert,
    payload_schemas,
    points,
    stable,
    streams,
    violations,
)
from tests.kernels.plans import SCHEMA, SOURCE, aggregate

pytestmark = pytest.mark.usefixtures("eagerness")

MOST = 300
LENGTHS = st.one_of(
    st.integers(1, 9), st.integers(1, 9), st.sampled_from([50, 10**17, 2**62, FOREVER - 1])
).map(Duration)


@pytest.fixture(autouse=True)
def few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "MOST_PIECES", MOST)


def agrees(
    node: Node,
    batches: list[EventBatch],
    length: int,
    emit: Literal["speculative", "final"] = "speculative",
) -> None:
    """As the oracle says; a refusal counts where lifetimes are long."""
    with contextlib.ExitStack() as stack:
        if longest(batches) > MOST // 50 * length:
            stack.enter_context(contextlib.suppress(StreamError))
        assert_agrees(node, batches, emit=emit)


def longest(batches: list[EventBatch]) -> int:
    """The longest lifetime; one without end counts up to the last stable point."""
    horizon = max((int(batch.stable) for batch in batches if batch.stable < FOREVER), default=0)
    times = [[batch.start, batch.end, batch.new_end] for batch in batches]
    spans = [
        (horizon if end == FOREVER else end) - start
        for batch in times
        for start, *ends in zip(*(each.tolist() for each in batch), strict=True)
        for end in ends
    ]
    return max(spans, default=0)


@given(streams(SCHEMA).flatmap(batchings), LENGTHS)
def test_split_keeps_all_snapshots(batches: list[EventBatch], length: Duration) -> None:
    agrees(Split(input=SOURCE, length=length), batches, length)


@given(streams(SCHEMA).flatmap(batchings), LENGTHS)
def test_split_with_final_emission(batches: list[EventBatch], length: Duration) -> None:
    agrees(Split(input=SOURCE, length=length), batches, length, emit="final")


@given(st.data(), payload_schemas(), LENGTHS)
def test_split_of_any_columns(data: st.DataObject, schema: object, length: Duration) -> None:
    source = Source(name="S", schema=schema)
    batches = data.draw(streams(source.schema).flatmap(batchings))
    agrees(Split(input=source, length=length), batches, length)


@given(streams(SCHEMA).flatmap(batchings))
def test_rstream_keeps_all_snapshots(batches: list[EventBatch]) -> None:
    agrees(ToStream(input=SOURCE, kind="snapshots"), batches, 1)


@given(streams(SCHEMA, longest=9).flatmap(batchings), LENGTHS, st.integers(1, 4))
def test_a_plan_above_sees_the_same(batches: list[EventBatch], length: Duration, size: int) -> None:
    cut = Split(input=SOURCE, length=length)
    agrees(aggregate(TimeWindow(input=cut, size=Duration(size)), ("k",), "n", "s"), batches, length)


@given(streams(SCHEMA).flatmap(batchings), LENGTHS)
def test_pieces_are_short_and_begin_at_cuts(batches: list[EventBatch], length: Duration) -> None:
    """After every batch the events are those of the definition, one by one."""
    came, left = PhysicalState.empty(), PhysicalState.empty()
    runner = LocalRunner(Split(input=SOURCE, length=length))
    for batch in batches:
        try:
            out = runner.step({"S": batch})
        except StreamError:
            return
        assert not list(violations(elements_of(batch), came))
        came.stable = max(came.stable, batch.stable)
        assert not list(violations(elements_of(out), left))
        left.stable = out.stable
        if came.stable == FOREVER:
            return
        expected = [
            (payload, *piece)
            for (payload, start, end) in came.events.elements()
            for piece in pieces(start, end, length, came.stable)
        ]
        assert sorted(left.events.elements(), key=repr) == sorted(expected, key=repr)


def pieces(start: int, end: int, length: int, horizon: int) -> list[tuple[int, int]]:
    """The definition: cut every `length`, an open lifetime no further than the stable point."""
    found, at = [], start
    while at + length < end and (end < FOREVER or at + length <= horizon):
        found.append((at, at + length))
        at += length
    return [*found, (at, end)]


def test_an_open_lifetime_is_cut_by_progress() -> None:
    stream = PhysicalStream(
        SCHEMA.remove(2).remove(1),
        (
            insert("a", start=1),
            stable(4),
            stable(9),
            adjust("a", start=1, end=FOREVER, new_end=10),
            stable(FOREVER),
        ),
    )
    node = Split(input=Source(name="S", schema=stream.schema), length=Duration(3))
    first, second, third, last = assert_agrees(node, stream.batches(2, 3, 4))
    assert elements_of(first) == [insert("a", start=1, end=4), insert("a", start=4)]
    assert elements_of(second) == [
        adjust("a", start=4, end=FOREVER, new_end=7),
        insert("a", start=7),
    ]
    assert elements_of(third) == [adjust("a", start=7, end=FOREVER, new_end=10)]
    assert elements_of(last) == []


@given(points(SCHEMA).flatmap(batchings))
def test_points_pass_without_memory(batches: list[EventBatch]) -> None:
    source = Source(name="S", schema=SCHEMA, only_points=True)
    node = Split(input=source, length=Duration(1))
    runner = LocalRunner(node)
    assert any(
        isinstance(k, KeepKernel) for edge in runner.plan.stages[0].edges for k in edge.chain
    )
    assert_agrees(node, batches)


def test_too_many_pieces_are_refused() -> None:
    long = PhysicalStream(SCHEMA, (insert("a", 1, 0.0, start=0, end=10**15),))
    with pytest.raises(StreamError, match=r"cut into 1000000000000000 pieces\n.*Split 1\n"):
        LocalRunner(Split(input=SOURCE, length=Duration(1))).step({"S": long.batches()[0]})
    whole = PhysicalStream(SCHEMA, (insert("a", 1, 0.0, start=BEGINNING + 1), stable(FOREVER - 1)))
    with pytest.raises(StreamError, match=r"cut into 18446744073709551614 pieces"):
        LocalRunner(Split(input=SOURCE, length=Duration(1))).step({"S": whole.batches()[0]})
