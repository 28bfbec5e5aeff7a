"""Cleanse lets go only what is settled, in order, and all of it in the end."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.kernels.trace import runs
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
    schedules,
    stable,
    streams,
    violations,
)
from tests.kernels.plans import SCHEMA, SOURCE, aggregate

pytestmark = pytest.mark.usefixtures("eagerness")

LETTERS = Source(name="S", schema=SCHEMA.remove(2).remove(1))
CUT = st.booleans()


@given(streams(SCHEMA).flatmap(batchings), CUT, st.sampled_from(["speculative", "final"]))
def test_snapshots_are_those_of_the_input(batches: list[EventBatch], cut: bool, emit: str) -> None:
    node = Cleanse(input=SOURCE, cut=cut)
    left = assert_agrees(node, batches, emit="final" if emit == "final" else "speculative")
    if cut:
        assert left[-1].stable == max(batch.stable for batch in batches)


@given(st.data(), payload_schemas(), CUT)
def test_of_any_columns(data: st.DataObject, schema: object, cut: bool) -> None:
    source = Source(name="S", schema=schema)
    batches = data.draw(streams(source.schema).flatmap(batchings))
    assert_agrees(Cleanse(input=source, cut=cut), batches)


@given(streams(SCHEMA).flatmap(batchings), CUT)
def test_only_inserts_leave_and_in_order(batches: list[EventBatch], cut: bool) -> None:
    left = assert_agrees(Cleanse(input=SOURCE, cut=cut), batches)
    moves = [move for batch in left for move in elements_of(batch)]
    assert all(move.end == move.start < move.new_end for move in moves)
    assert [move.start for move in moves] == sorted(move.start for move in moves)
    promises = [batch.stable for batch in left]
    assert promises == sorted(promises)


@given(streams(SCHEMA).flatmap(batchings))
def test_whole_events_leave_as_soon_as_they_may(batches: list[EventBatch]) -> None:
    """After every batch: gone is what is settled and has no unsettled event in front of it."""
    runner = LocalRunner(Cleanse(input=SOURCE, cut=False))
    came, gone = PhysicalState.empty(), Counter[object]()
    for batch in batches:
        out = runner.step({"S": batch})
        gone.update((move.payload, move.start, move.new_end) for move in elements_of(out))
        assert not list(violations(elements_of(batch), came))
        came.stable = max(came.stable, batch.stable)
        events = list(came.events.elements())
        frozen = [event for event in events if event[2] < came.stable or came.stable == FOREVER]
        open_still = [event[1] for event in events if event not in frozen]
        least = min(open_still, default=FOREVER)
        assert gone == Counter(event for event in frozen if event[1] <= least)
        assert out.stable == min(least, came.stable)
        held = len(events) - sum(gone.values())
        assert runner.state_rows() <= held or runner.state_rows() > runs.MERGE_ALL_UP_TO_ROWS


@given(schedules(S=streams(SCHEMA), T=streams(SCHEMA)), CUT)
def test_a_plan_above_sees_what_is_settled(steps: list[dict[str, EventBatch]], cut: bool) -> None:
    other = Source(name="T", schema=SCHEMA)
    both: Node = Union(inputs=(Cleanse(input=SOURCE, cut=cut), other))
    node = aggregate(TimeWindow(input=both, size=Duration(2)), ("k",), "n", "hi")
    assert_agrees(node, batches=steps)


def test_an_event_without_end_holds_back_all_that_starts_later() -> None:
    stream = PhysicalStream(
        LETTERS.schema,
        (
            insert("a", start=1, end=5),
            insert("b", start=2),
            insert("c", start=2, end=4),
            insert("d", start=3, end=4),
            stable(9),
            adjust("b", start=2, end=FOREVER, new_end=9),
            stable(10),
        ),
    )
    whole = assert_agrees(Cleanse(input=LETTERS, cut=False), stream.batches(5))
    assert elements_of(whole[0]) == [insert("a", start=1, end=5), insert("c", start=2, end=4)]
    assert whole[0].stable == 2
    assert elements_of(whole[1]) == [insert("b", start=2, end=9), insert("d", start=3, end=4)]
    assert whole[1].stable == 10
    cut = assert_agrees(Cleanse(input=LETTERS), stream.batches(5))
    assert insert("b", start=2, end=9) in elements_of(cut[0])
    assert (cut[0].stable, len(cut[0]), len(cut[1])) == (9, 4, 0)


def test_before_any_promise_nothing_leaves() -> None:
    stream = PhysicalStream(LETTERS.schema, (insert("a", start=1, end=5),))
    for cut in (True, False):
        (left,) = assert_agrees(Cleanse(input=LETTERS, cut=cut), stream)
        assert (len(left), left.stable) == (0, BEGINNING)
