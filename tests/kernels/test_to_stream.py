"""Istream and Dstream mean what their nodes say."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.forms.split import Split
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import Anchor, StreamKind, ToStream
from anabranch.algebra.union import Union
from anabranch.errors import StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.testing import (
    LocalRunner,
    PhysicalStream,
    adjust,
    assert_agrees,
    batchings,
    elements_of,
    insert,
    instants,
    payload_schemas,
    schedules,
    stable,
    streams,
)
from tests.kernels.plans import SCHEMA, SOURCE, aggregate

pytestmark = pytest.mark.usefixtures("eagerness")

KINDS: list[tuple[StreamKind, Anchor]] = [
    ("insertions", "last_valid"),
    ("deletions", "last_valid"),
    ("deletions", "first_invalid"),
]
LETTERS = Source(name="S", schema=SCHEMA.remove(2).remove(1))


def made(over: Node, kind: StreamKind, anchor: Anchor) -> ToStream:
    return ToStream(input=over, kind=kind, anchor=anchor)


@pytest.mark.parametrize(("kind", "anchor"), KINDS)
@given(batches=streams(SCHEMA).flatmap(batchings), emit=st.sampled_from(["speculative", "final"]))
def test_what_begins_and_what_ends(
    kind: StreamKind, anchor: Anchor, batches: list[EventBatch], emit: str
) -> None:
    node = made(SOURCE, kind, anchor)
    assert_agrees(node, batches, emit="final" if emit == "final" else "speculative")


@pytest.mark.parametrize(("kind", "anchor"), KINDS)
@given(data=st.data(), schema=payload_schemas())
def test_of_any_columns(
    kind: StreamKind, anchor: Anchor, data: st.DataObject, schema: object
) -> None:
    source = Source(name="S", schema=schema)
    batches = data.draw(streams(source.schema).flatmap(batchings))
    assert_agrees(made(source, kind, anchor), batches)


@given(schedules(S=streams(SCHEMA), T=streams(SCHEMA)), st.sampled_from(KINDS))
def test_a_plan_that_is_less_settled_on_one_side(
    steps: list[dict[str, EventBatch]], how: tuple[StreamKind, Anchor]
) -> None:
    other = Source(name="T", schema=SCHEMA)
    both = Union(inputs=(made(SOURCE, *how), other))
    assert_agrees(aggregate(TimeWindow(input=both, size=Duration(2)), ("k",), "n"), batches=steps)


@given(streams(SCHEMA).flatmap(batchings), st.sampled_from(KINDS), st.sampled_from(KINDS))
def test_one_after_the_other(
    batches: list[EventBatch],
    below: tuple[StreamKind, Anchor],
    above: tuple[StreamKind, Anchor],
) -> None:
    assert_agrees(made(made(SOURCE, *below), *above), batches)


@given(streams(SCHEMA), st.sampled_from(get_args(StreamKind)), instants())
def test_each_instant_is_compared_with_the_one_before(
    stream: PhysicalStream, kind: StreamKind, instant: int
) -> None:
    rows = stream.meaning()
    now, before = rows.snapshot(instant), rows.snapshot(instant - 1)
    expected = {"insertions": now - before, "deletions": before - now, "snapshots": now}[kind]
    assert made(SOURCE, kind, "first_invalid").denote(rows).snapshot(instant) == expected
    if kind == "deletions" and instant > BEGINNING + 1:
        early = made(SOURCE, kind, "last_valid").denote(rows)
        assert early.snapshot(instant - 1) == expected


@given(streams(SCHEMA, longest=9).flatmap(batchings), st.integers(1, 4))
def test_how_the_input_is_cut_does_not_matter(batches: list[EventBatch], length: int) -> None:
    for kind, anchor in KINDS:
        whole = assert_agrees(made(SOURCE, kind, anchor), batches)
        cut = Split(input=SOURCE, length=Duration(length))
        pieces = assert_agrees(made(cut, kind, anchor), batches)
        assert LogicalStream.of_batches(whole) == LogicalStream.of_batches(pieces)


def test_an_end_is_withdrawn_when_the_payload_goes_on() -> None:
    stream = PhysicalStream(
        LETTERS.schema,
        (
            insert("b", start=1, end=7),
            stable(7),
            insert("b", start=7, end=15),
            insert("b", start=7, end=9),
            stable(15),
        ),
    )
    deleted = assert_agrees(made(LETTERS, "deletions", "last_valid"), stream.batches(2))
    assert elements_of(deleted[0]) == [insert("b", start=6, end=7)]
    assert deleted[0].stable == 6
    assert elements_of(deleted[1]) == [
        adjust("b", start=6, end=7, new_end=6),
        insert("b", start=8, end=9),
        insert("b", start=14, end=15),
    ]
    begun = assert_agrees(made(LETTERS, "insertions", "last_valid"), stream.batches(2))
    assert elements_of(begun[0]) == [insert("b", start=1, end=2)]
    assert elements_of(begun[1]) == [insert("b", start=7, end=8)]


def test_promises_look_one_instant_ahead_where_the_output_does() -> None:
    for at, promised in ((BEGINNING, BEGINNING), (BEGINNING + 1, BEGINNING), (FOREVER, FOREVER)):
        assert made(SOURCE, "deletions", "last_valid").promise(Time(at)) == promised
        assert made(SOURCE, "deletions", "first_invalid").promise(Time(at)) == at


def test_an_adjust_of_an_unknown_event_is_reported() -> None:
    stream = PhysicalStream(SCHEMA, (adjust("a", 1, 0.5, start=3, end=9, new_end=5),))
    with pytest.raises(StreamError, match="never inserted"):
        LocalRunner(made(SOURCE, "insertions", "last_valid")).step({"S": stream.batches()[0]})
