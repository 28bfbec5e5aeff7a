"""Copies differ in all that they may, and mean the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from anabranch.errors import QueryError
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER, SECOND, Duration
from anabranch.testing.compatible import MergeWatch
from anabranch.testing.physical import (
    Element,
    KitStable,
    Move,
    PhysicalState,
    elements_of,
    violations,
)
from anabranch.workloads.lmerge import CopyCase, LMerge, copy_batches

CASES: tuple[CopyCase, ...] = ("r0", "r1", "r2", "r3", "r4")


def config(case: CopyCase, events: int = 400) -> LMerge:
    return LMerge(
        events=events,
        case=case,
        text=12,
        live=20,
        back=Duration(60 * SECOND),
        adjusts=0.4,
        stable_share=0.1,
    )


def elements(batches: list[EventBatch]) -> list[Element]:
    told: list[Element] = []
    for batch in batches:
        told.extend(elements_of(batch))
        told.append(KitStable(batch.stable))
    return told


def copy(of: LMerge, number: int) -> list[Element]:
    return elements(list(copy_batches(of, number)))


@pytest.mark.parametrize("case", CASES)
def test_every_copy_is_legal_and_all_mean_the_same_events(case: CopyCase) -> None:
    of = config(case)
    ends = []
    for number in range(3):
        told = copy(of, number)
        assert not list(violations(told))
        state = PhysicalState.empty()
        for element in told:
            state.take(element)
        assert state.stable == FOREVER
        ends.append(state.events)
    assert ends[0].total() == of.events
    assert ends[0] == ends[1] == ends[2]
    keys = Counter((payload, start) for payload, start, _ in ends[0].elements())
    assert (max(keys.values()) == 1) == (case != "r4")


@pytest.mark.parametrize("case", ["r3", "r4"])
def test_copies_are_mutually_consistent_all_the_time(case: CopyCase) -> None:
    of = config(case, events=60)
    told = [copy(of, number) for number in range(3)]
    watch = MergeWatch(multiset=case == "r4")
    for number in range(len(told)):
        watch.attach(f"copy {number}", BEGINNING)
    for place in range(max(map(len, told))):
        for number, one in enumerate(told):
            if place < len(one):
                watch.take(f"copy {number}", one[place])
        # The first copy itself is an output that fits all of them.
        if place < len(told[0]):
            watch.emit(told[0][place])
        assert not watch.violations()


@pytest.mark.parametrize("case", ["r3", "r4"])
def test_copies_have_orders_revisions_and_stable_points_of_their_own(case: CopyCase) -> None:
    one, other = (copy(config(case), number) for number in (0, 1))
    moves = [[e for e in told if isinstance(e, Move)] for told in (one, other)]
    stables = [[e.time for e in told if isinstance(e, KitStable)] for told in (one, other)]
    assert stables[0] != stables[1]
    inserts = [[e for e in told if e.end == e.start] for told in moves]
    assert [e.payload for e in inserts[0]] != [e.payload for e in inserts[1]]
    assert set(inserts[0]) != set(inserts[1])
    for told, first in zip(moves, inserts):
        assert (len(told) - len(first)) / len(told) == pytest.approx(0.4, abs=0.08)
    starts = [e.start for e in inserts[0]]
    assert starts != sorted(starts)


@pytest.mark.parametrize("case", ["r0", "r1", "r2"])
def test_ordered_copies_insert_in_order(case: CopyCase) -> None:
    told = [[e for e in copy(config(case), n) if isinstance(e, Move)] for n in (0, 1)]
    for moves in told:
        starts = [e.start for e in moves]
        assert all(e.end == e.start for e in moves)
        assert starts == sorted(starts)
        assert (len(set(starts)) == len(starts)) == (case == "r0")
    assert (told[0] == told[1]) == (case != "r2")


def test_batches_of_a_size_have_the_same_elements() -> None:
    of = config("r3")
    by_size = list(copy_batches(of, 1, 64))
    assert {len(batch) for batch in by_size[:-1]} == {64}
    moves = [e for batch in by_size for e in elements_of(batch)]
    assert moves == [e for e in copy(of, 1) if isinstance(e, Move)]
    assert not list(violations(elements(by_size)))


def test_about_so_many_events_hold_at_once() -> None:
    of = LMerge(events=20_000, text=0, live=500)
    batches = [batch for batch in copy_batches(of, 0, 5_000) if len(batch)]
    held = sum(int((batch.new_end - batch.end).sum()) for batch in batches)
    first, last = (min(b.start.min() for b in batches), max(b.start.max() for b in batches))
    assert held / (last - first) == pytest.approx(500, rel=0.1)


def test_texts_are_as_long_as_wanted_and_differ() -> None:
    for length in (0, 8, 13, 1_000):
        (batch, *_) = copy_batches(LMerge(events=50, text=length), 0, 50)
        texts = batch.payload.column("text").to_pylist()
        assert {len(text) for text in texts} == {length}
        assert len(set(texts)) == (50 if length else 1)


@pytest.mark.parametrize("revisions", [1, 3])
def test_events_that_are_adjusted_are_adjusted_so_often(revisions: int) -> None:
    of = replace(config("r3", events=5_000), adjusts=0.2, revisions=revisions)
    told = [each for each in copy(of, 0) if isinstance(each, Move)]
    often = Counter(each.payload for each in told if each.end != each.start)
    assert set(often.values()) == {revisions}
    assert often.total() / len(told) == pytest.approx(0.2, abs=0.02)


def test_nonsense_is_refused() -> None:
    wrongs: list[dict[str, Any]] = [
        {"disorder": 2.0},
        {"adjusts": 0.95},
        {"live": -1},
        {"revisions": 0},
        {"case": "r5"},
    ]
    for wrong in wrongs:
        with pytest.raises(QueryError):
            LMerge(**wrong)
