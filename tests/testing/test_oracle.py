"""The oracle notices when a runner does not do what the plan means."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.union import Union
from anabranch.kernels.plan.compile import Emission
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.testing import (
    Element,
    PhysicalStream,
    adjust,
    assert_agrees,
    elements_of,
    insert,
    schedules,
    stable,
    streams,
    violations,
)

LETTERS = pa.schema([("e", pa.string())])
S = Source(name="S", schema=LETTERS)
T = Source(name="T", schema=LETTERS)
COUNT = Aggregation(input=S, aggregates=(("n", AggregateCall(function="count")),))
STREAM = PhysicalStream(
    LETTERS,
    (
        insert("x", start=1, end=8),
        stable(1),
        insert("y", start=5, end=11),
        stable(5),
        adjust("y", start=5, end=11, new_end=7),
        insert("z", start=6, end=9),
        stable(7),
        stable(12),
    ),
)


def test_an_honest_runner_agrees_and_its_output_is_given_back() -> None:
    left = assert_agrees(COUNT, STREAM, batch_size=2)
    assert len(left) == 4
    assert elements_of(left[0]) == [insert(1, start=1, end=8)]
    assert left[-1].stable == 12


@settings(max_examples=25)
@given(schedules(S=streams(LETTERS), T=streams(LETTERS)))
def test_sources_may_come_in_any_interleaving(steps: list[dict[str, EventBatch]]) -> None:
    assert_agrees(Union(inputs=(S, T)), batches=steps)


def test_a_stream_may_come_in_given_batches() -> None:
    assert len(assert_agrees(COUNT, STREAM.batches(0, 1, 1, 5))) == 5


def test_the_number_of_streams_must_fit_the_plan() -> None:
    with pytest.raises(AssertionError, match="the plan has 1 sources"):
        assert_agrees(COUNT, STREAM, STREAM)


Spoil = Callable[[EventBatch], EventBatch]


def without_last(batch: EventBatch) -> EventBatch:
    return batch.take(np.arange(max(len(batch) - 1, 0)))


def doubled(batch: EventBatch) -> EventBatch:
    return EventBatch.concat([batch, batch])


def promising_less(batch: EventBatch) -> EventBatch:
    return batch.with_stable(BEGINNING)


def promising_more(batch: EventBatch) -> EventBatch:
    return batch.with_stable(FOREVER)


def ending_later(batch: EventBatch) -> EventBatch:
    return batch.with_ends(batch.end, batch.new_end + (batch.new_end > batch.start))


def starting_early(batch: EventBatch) -> EventBatch:
    early = np.where(batch.end == batch.start, np.int64(0), batch.start)
    end = np.where(batch.end == batch.start, np.int64(0), batch.end)
    return EventBatch(batch.payload, early, end, batch.new_end, batch.stable)


def empty_lifetime(batch: EventBatch) -> EventBatch:
    return batch.with_ends(batch.start, batch.start)


def other_columns(batch: EventBatch) -> EventBatch:
    return batch.with_payload(batch.payload.rename_columns(["m"]))


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (without_last, "the snapshots differ from instant"),
        (doubled, "after batch 1 of 4: the snapshots differ from instant 1 on"),
        (promising_less, "the output is stable at -forever, but the inputs at 1"),
        (promising_more, "the output is stable at forever, but the inputs at 1"),
        (ending_later, "the snapshots differ from instant 8 on"),
        (starting_early, "starts before the stable point 1|the snapshots differ from instant 0"),
        (empty_lifetime, "an illegal element left: insert.*the lifetime is empty"),
        (other_columns, "the output has columns m"),
    ],
)
def test_a_wrong_runner_is_found_out(
    monkeypatch: pytest.MonkeyPatch, spoil: Spoil, complaint: str
) -> None:
    class Spoiled:
        def __init__(self, node: Node, emit: Emission = "speculative") -> None:
            self.runner = LocalRunner(node, emit)

        def step(self, arrived: Mapping[str, EventBatch]) -> EventBatch:
            return spoil(self.runner.step(arrived))

    monkeypatch.setattr("anabranch.testing.oracle.LocalRunner", Spoiled)
    with pytest.raises(AssertionError, match=complaint):
        assert_agrees(COUNT, STREAM, batch_size=2)


def test_a_failure_tells_the_whole_story(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        def __init__(self, node: Node, emit: Emission = "speculative") -> None:
            self.schema = node.schema

        def step(self, arrived: Mapping[str, EventBatch]) -> EventBatch:
            return EventBatch.empty(self.schema, arrived["S"].stable)

    monkeypatch.setattr("anabranch.testing.oracle.LocalRunner", Silent)
    with pytest.raises(AssertionError) as caught:
        assert_agrees(COUNT, STREAM, batch_size=4)
    assert str(caught.value) == (
        "after batch 1 of 2: the snapshots differ from instant 1 on\n"
        "  this stream:  nothing\n"
        "  the other:    (1)\n"
        "  only other:   (1)\n"
        "the plan:\n"
        "  Aggregate count(*) AS n\n"
        "    Source S\n"
        "what came from S:\n"
        "  batch 1: insert('x')[1, 8), insert('y')[5, 11), stable(5)\n"
        "what left:\n"
        "  batch 1: stable(5)"
    )


def test_final_emission_answers_for_the_past_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late:
        """Says what is final, one instant too late."""

        def __init__(self, node: Node, emit: Emission = "speculative") -> None:
            self.runner = LocalRunner(node, emit)
            self.now = Time(BEGINNING)

        def step(self, arrived: Mapping[str, EventBatch]) -> EventBatch:
            batch = arrived["S"]
            self.now = Time(max(self.now, batch.stable))
            return self.runner.step({"S": batch.with_stable(Time(self.now - 1))}).with_stable(
                self.now
            )

    assert_agrees(COUNT, STREAM, batch_size=2, emit="final")
    monkeypatch.setattr("anabranch.testing.oracle.LocalRunner", Late)
    with pytest.raises(AssertionError, match="the snapshots differ from instant 4 on"):
        assert_agrees(COUNT, STREAM, batch_size=2, emit="final")


@pytest.mark.parametrize(
    ("elements", "wrong"),
    [
        ([insert("a", start=3, end=5)], []),
        ([stable(4), insert("a", start=3, end=5)], ["starts before the stable point 4"]),
        ([insert("a", start=3, end=5), adjust("a", start=3, end=6, new_end=9)], ["no such event"]),
        (
            [insert("a", start=3, end=5), stable(6), adjust("a", start=3, end=5, new_end=9)],
            ["changes something before the stable point 6"],
        ),
        ([insert("a", start=3, end=5), stable(5), adjust("a", start=3, end=5, new_end=9)], []),
        ([insert("a", start=3, end=5), stable(5), adjust("a", start=3, end=5, new_end=5)], []),
        (
            [insert("a", start=3, end=9), stable(5), adjust("a", start=3, end=9, new_end=4)],
            ["changes something before the stable point 5"],
        ),
        (
            [insert("a", start=3, end=9), stable(4), adjust("a", start=3, end=9, new_end=3)],
            ["changes something before the stable point 4"],
        ),
        ([insert("a", start=3, end=9), stable(3), adjust("a", start=3, end=9, new_end=3)], []),
        ([insert("a", start=3, end=3)], ["the lifetime is empty"]),
        ([insert("a", start=3, end=2)], ["this is not a lifetime"]),
        ([insert("a", start=FOREVER, end=FOREVER)], ["this is not a lifetime"]),
        (
            [insert("a", start=3), adjust("a", start=3, end=FOREVER, new_end=3)] * 2,
            [],
        ),
        (
            [insert("a", start=3), *[adjust("a", start=3, end=FOREVER, new_end=3)] * 2],
            ["no such event"],
        ),
    ],
)
def test_illegal_elements_are_named(elements: list[Element], wrong: list[str]) -> None:
    found = list(violations(elements))
    assert len(found) == len(wrong)
    assert all(part in message for part, message in zip(wrong, found))
