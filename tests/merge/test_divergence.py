"""Copies that contradict each other on what is settled are noticed; others never are."""

from __future__ import annotations

from collections import deque
from itertools import chain
from random import Random
from typing import cast

import pytest

from anabranch.algebra.analysis.merge_case import Case
from anabranch.algebra.merge import Divergence, MergePolicy
from anabranch.errors import StreamError
from anabranch.kernels.columns import grouped as columns
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.testing import (
    Action,
    Element,
    MergeCase,
    Move,
    PhysicalState,
    adjust,
    insert,
    stable,
    violations,
)
from anabranch.testing.replica_forms import draw_history, draw_replica
from tests.merge.driver import Driver

KEYED_AND_NOT: list[Case] = ["r3", "r4"]
LONG: list[Element] = [insert("a", start=5, end=9), insert("b", start=6, end=8), stable(20)]
SHORT: list[Element] = [insert("a", start=5, end=7), insert("b", start=6, end=8), stable(20)]
NONE: list[Element] = [insert("b", start=6, end=8), stable(20)]


def attached(case: Case, *names: str, divergence: Divergence = "warn") -> Driver:
    driver = Driver(case, MergePolicy.of(divergence=divergence))
    driver.step([("attach", name, BEGINNING) for name in names])
    return driver


def says(name: str, elements: list[Element]) -> list[Action]:
    return [("element", name, element) for element in elements]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(("one", "two"), [(LONG, SHORT), (SHORT, LONG), (LONG, NONE), (NONE, LONG)])
@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_who_says_something_else_than_what_is_settled_is_counted(
    case: Case, one: list[Element], two: list[Element], together: bool
) -> None:
    driver = attached(case, "one", "two")
    if together:
        said = driver.step([*says("two", two), *says("one", one)])
    else:
        said = [*driver.step(says("one", one)), *driver.step(says("two", two))]
    # Among equals the first leads.
    assert sorted(map(repr, said)) == sorted(map(repr, one))
    assert driver.diverged() == {"two": 1}
    assert driver.step(says("two", [stable(30)])) == [stable(30)]
    assert driver.step(says("one", [stable(40)])) == [stable(40)]
    assert driver.diverged() == {"two": 1}


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_every_contradiction_is_told_of_its_own_event(
    case: Case, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events are told apart by hashes, and come in another order."""
    monkeypatch.setattr(columns, "COMPILE_FROM_ROWS", 0 if compiled else 10**9)
    if not compiled:
        monkeypatch.setattr(columns, "_is_loaded", lambda: False)
    names = "abcdef"
    right = [insert(name, start=at, end=at + 10) for at, name in enumerate(names)]
    wrong = [insert(name, start=at, end=at + 3) for at, name in enumerate(names)]
    driver = attached(case, "one", "two")
    driver.step(says("one", [*right, stable(40)]))
    driver.step(says("two", [*wrong, stable(40)]))
    assert driver.diverged() == {"two": len(names)}
    (trace,) = driver.traces
    texts = [note["event"] for note in driver.kernel.report(trace)["divergent"]]
    assert len(texts) >= 3
    for text in texts:
        at = names.index(text[text.index("'") + 1 if "'" in text else text.index("=") + 1])
        assert f"from {at}:" in text
        assert f"settled until {at + 10}, but 'two' says until {at + 3}" in text


@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_what_is_not_settled_may_differ(case: Case) -> None:
    driver = attached(case, "one", "two")
    driver.step(says("one", LONG))
    driver.step(says("two", SHORT[:-1]))
    driver.step(says("two", [stable(5)]))
    assert driver.diverged() == {}
    driver.step(says("two", [adjust("a", start=5, end=7, new_end=9), stable(20)]))
    assert driver.diverged() == {}


@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_a_copy_that_is_not_listened_to_any_more_changes_nothing(case: Case) -> None:
    driver = attached(case, "one", "two", divergence="quarantine")
    driver.step(says("one", LONG))
    assert driver.step(says("two", SHORT)) == []
    assert [copy.status for copy in driver.copies["two"]] == ["quarantined"]
    assert driver.diverged() == {"two": 1}
    other = insert("c", start=40, end=50)
    assert driver.step(says("two", [other, stable(60)])) == []
    assert driver.step(says("one", [stable(30)])) == [stable(30)]
    # Whoever attaches it again trusts it again.
    driver.step([("attach", "two", BEGINNING)])
    assert driver.step(says("two", [other])) == [other]


@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_a_leader_that_contradicts_is_left_out_in_the_same_batch(case: Case) -> None:
    driver = attached(case, "one", "two", divergence="quarantine")
    driver.step(says("one", [LONG[0], stable(6)]))
    said = driver.step([*says("two", [*NONE, stable(50)]), *says("one", LONG[1:])])
    assert said == [LONG[1], stable(20)]
    assert [copy.status for copy in driver.copies["two"]] == ["quarantined"]


@pytest.mark.parametrize(
    ("one", "two", "where"),
    [
        (LONG, SHORT, "('a') from 5: settled until 9, but 'two' says until 7"),
        (LONG, NONE, "('a') from 5: settled until 9, but 'two' says there is none"),
        (NONE, LONG, "('a') from 5: settled that there is none, but 'two' says until 9"),
    ],
)
@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_who_wants_to_hear_of_it_at_once_sees_the_event_and_both_views(
    case: Case, one: list[Element], two: list[Element], where: str
) -> None:
    driver = attached(case, "one", "two", divergence="fail")
    driver.step(says("one", one))
    with pytest.raises(StreamError) as caught:
        driver.step(says("two", two))
    assert str(caught.value) == (
        "input 'two' contradicts what is settled\n"
        f"  {where}\n"
        "  hint: find out which copy is right; divergence='quarantine' continues without this one"
    )


@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_when_all_is_said_a_copy_may_still_contradict(case: Case) -> None:
    driver = attached(case, "one", "two")
    driver.step(says("two", [stable(FOREVER)]))
    assert driver.step(says("one", [insert("c", start=9), stable(FOREVER)])) == []
    assert driver.diverged() == {"one": 1}


def test_of_many_events_with_one_start_the_numbers_count() -> None:
    driver = attached("r4", "one", "two", divergence="fail")
    driver.step(says("one", [insert("a", start=5, end=9)] * 2 + [stable(20)]))
    with pytest.raises(StreamError, match="settled 2 until 9, but 'two' says until 9"):
        driver.step(says("two", [insert("a", start=5, end=9), stable(20)]))


@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_a_late_copy_need_not_know_what_ended_before_it_vouches(case: Case) -> None:
    driver = attached(case, "old")
    many = [insert("a", start=5, end=end) for end in ([12] if case == "r3" else [12, 14])]
    driver.step(says("old", [*many, insert("b", start=6, end=30), stable(7)]))
    driver.step([("attach", "late", 13)])
    mine = [] if case == "r3" else [insert("a", start=5, end=14)]
    # It has not settled anything that it vouches for: `b` may yet end at 12.
    driver.step(says("late", [*mine, stable(13)]))
    driver.step(says("old", [adjust("b", start=6, end=30, new_end=12), stable(13)]))
    driver.step(says("old", [stable(20)]))
    driver.step(says("late", [stable(20)]))
    assert driver.diverged() == {}


@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_a_late_copy_that_lacks_what_it_vouches_for_is_counted(case: Case) -> None:
    driver = attached(case, "old")
    driver.step(says("old", [insert("a", start=5, end=16), stable(7)]))
    driver.step([("attach", "late", 13)])
    driver.step(says("late", [stable(20)]))
    assert driver.diverged() == {}
    driver.step(says("old", [stable(13)]))
    assert driver.diverged() == {"late": 1}


@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_a_copy_that_comes_when_facts_are_forgotten_may_repeat_them_or_not(case: Case) -> None:
    driver = attached(case, "one", "two")
    for name in ("one", "two"):
        driver.step(says(name, LONG))
    for number, elements in enumerate((LONG, SHORT, NONE)):
        driver.step([("attach", f"late {number}", BEGINNING)])
        driver.step(says(f"late {number}", elements))
    assert driver.diverged() == {}


@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_a_copy_that_begins_again_without_a_word_repeats_itself(case: Case) -> None:
    driver = attached(case, "one", "two")
    driver.step(says("one", LONG))
    driver.step(says("two", LONG))
    driver.step(says("two", LONG))
    assert driver.diverged() == {}
    assert [copy.ignored for copy in driver.copies["two"]] == [4]


@pytest.mark.parametrize("case", ["R3", "R4"])
def test_a_copy_with_one_event_spoiled_is_found_out(case: MergeCase) -> None:
    dice = Random(f"spoiled {case}")
    for _ in range(6):
        right, wrong, event = spoiled(case, dice)
        actions = iter(interleaved(dice, right, wrong))
        driver = attached(cast(Case, case.lower()), "one", "two", divergence="fail")
        with pytest.raises(StreamError, match=r"contradicts what is settled") as caught:
            deque((driver.step([action]) for action in actions), maxlen=0)
        assert f"('{event.payload[0]}') from {event.start}: " in str(caught.value)


@pytest.mark.parametrize("case", ["R3", "R4"])
def test_what_is_settled_stays_and_all_who_differ_are_left_out(case: MergeCase) -> None:
    dice = Random(f"left out {case}")
    for _ in range(6):
        right, wrong, _ = spoiled(case, dice)
        again = draw_replica(case, events_of(right), dice.randrange)
        driver = attached(cast(Case, case.lower()), "one", "two", "three", divergence="quarantine")
        said: list[Element] = []
        guilty: set[str] = set()
        for action in interleaved(dice, right, wrong, [*again, stable(FOREVER)]):
            said += driver.step([action])
            guilty |= {
                name
                for name, each in driver.copies.items()
                if "quarantined" in [copy.status for copy in each]
            }
        state = PhysicalState.empty()
        assert list(violations(said, state)) == []
        assert guilty <= {"two"} or guilty <= {"one", "three"}
        followed = wrong if "one" in guilty or "three" in guilty else right
        final = PhysicalState.empty()
        assert list(violations(followed, final)) == []
        assert state.events == final.events


def spoiled(case: MergeCase, dice: Random) -> tuple[list[Element], list[Element], Move]:
    """Two whole copies of a history; in the second one event ends later, or is missing."""
    history: tuple[Move, ...] = ()
    while not history:
        history = draw_history(case, dice.randrange, 6)
    event = dice.choice(history)
    others = list(history)
    others.remove(event)
    if dice.random() < 0.5 and event.new_end < FOREVER:
        others.append(Move(event.payload, event.start, event.start, event.new_end + 1))
    return (
        [*draw_replica(case, history, dice.randrange), stable(FOREVER)],
        [*draw_replica(case, others, dice.randrange), stable(FOREVER)],
        event,
    )


def events_of(elements: list[Element]) -> list[Move]:
    state = PhysicalState.empty()
    assert list(violations(elements, state)) == []
    return [
        Move(payload, start, start, end)
        for (payload, start, end), count in state.events.items()
        for _ in range(count)
    ]


def interleaved(dice: Random, *copies: list[Element]) -> list[Action]:
    names = ("one", "two", "three")
    turns = list(chain(*([place] * len(each) for place, each in enumerate(copies))))
    dice.shuffle(turns)
    left = [iter(each) for each in copies]
    return [("element", names[place], next(left[place])) for place in turns]
