"""The checker of merges finds what a merge does wrong, and what copies are is what they promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model import elements as model
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.testing import (
    MERGE_CASES,
    AnyElement,
    Element,
    MergeCase,
    MergeModel,
    MergeScript,
    MergeWatch,
    Move,
    PhysicalState,
    Stable,
    adjust,
    compatible,
    insert,
    make_script,
    merge_scripts,
    stable,
)

CASES = st.sampled_from(MERGE_CASES)
BOTH = pytest.mark.parametrize("multiset", [False, True])


def rules(inputs: dict[str, list[Element]], output: list[Element], *, multiset: bool) -> list[str]:
    return sorted(each.rule for each in compatible(inputs, output, multiset=multiset))


A = insert("a", start=5, end=9)


@BOTH
@pytest.mark.parametrize(
    ("inputs", "output", "wrong"),
    [
        ([[A]], [], []),
        ([[A, stable(7)]], [], []),
        ([[]], [A], []),
        ([[A, stable(7)]], [A, stable(7)], []),
        ([[A, stable(7)]], [insert("a", start=5), stable(7)], []),
        ([[A, stable(7)]], [A, stable(8)], ["C1", "C2"]),
        ([[A, stable(7)]], [A, stable(5)], []),
        ([[A, stable(7)]], [stable(5)], []),
        ([[A, stable(7)]], [stable(6)], ["C3.2"]),
        ([[A, stable(10)]], [stable(6)], ["C3.1"]),
        ([[A, stable(10)]], [insert("a", start=5, end=6), stable(6)], []),
        ([[A, stable(10)]], [insert("a", start=5, end=6), stable(7)], ["C2"]),
        ([[A, stable(10)]], [insert("a", start=5, end=10), stable(10)], ["C2"]),
        ([[A, stable(10)]], [insert("a", start=5, end=10), stable(9)], []),
        ([[stable(10)]], [A, stable(6)], ["C2"]),
        ([[stable(10)]], [A, stable(5)], []),
        # At its end an event is not final yet.
        ([[A, stable(9)]], [A, stable(9)], []),
        ([[A, stable(9)]], [insert("a", start=5), stable(9)], []),
        ([[insert("a", start=5), stable(FOREVER)]], [A, stable(FOREVER)], ["C2"]),
        ([[insert("a", start=5), stable(FOREVER)]], [A, stable(9)], []),
        # The most advanced input decides; one that is behind knows less.
        ([[A, stable(6)], [stable(3)]], [A, stable(6)], []),
        ([[A], [stable(6)]], [A, stable(6)], ["C2"]),
        ([[A, stable(6)], [stable(8)]], [A, stable(8)], ["C2"]),
        ([[A, stable(6)], [stable(8)]], [stable(8)], ["C3.2"]),
        ([[insert("a", start=5, end=12), stable(11)], [A, stable(6)]], [A, stable(10)], ["C2"]),
    ],
)
def test_verdicts_on_one_event(
    inputs: list[list[Element]], output: list[Element], wrong: list[str], multiset: bool
) -> None:
    assert sorted(each.rule for each in compatible(inputs, output, multiset=multiset)) == wrong


def test_a_key_allows_one_event_and_a_multiset_as_many_as_there_are() -> None:
    twice: list[Element] = [A, insert("a", start=5, end=7)]
    assert rules({"one": [A]}, twice, multiset=False) == ["C2"]
    assert rules({"one": [A]}, twice, multiset=True) == []
    assert rules({"one": [*twice, stable(6)]}, [*twice, stable(6)], multiset=True) == []
    assert rules({"one": [*twice, stable(6)]}, [A, stable(6)], multiset=True) == ["C3.2"]
    assert rules({"one": [*twice, stable(8)]}, [A, A, stable(6)], multiset=True) == []
    assert rules({"one": [*twice, stable(8)]}, [A, A, stable(8)], multiset=True) == ["C2"]
    assert rules({"one": [*twice, stable(8)]}, [A, A, A, stable(6)], multiset=True) == ["C2"]
    assert rules({"one": [A, A, stable(6)]}, [A, stable(6)], multiset=True) == ["C3.2"]
    assert rules({"one": [A, A, stable(10)]}, [A, stable(10)], multiset=True) == ["C3.1"]


def test_elements_of_the_model_are_understood() -> None:
    said: list[AnyElement] = [model.Insert({"name": "a"}, 5, 9), model.Stable(7)]
    moved: list[AnyElement] = [
        model.Insert(("a",), 5, 7),
        model.Adjust(("a",), 5, 7, 8),
        model.Stable(7),
    ]
    assert compatible([said], moved) == []
    (wrong,) = compatible([said], [model.Stable(7)])
    assert str(wrong) == (
        "C3.2 ('a')@5: the output has nothing at 7; input 1 has [5, 9) half frozen at 7"
    )


@BOTH
@pytest.mark.parametrize(
    ("output", "text"),
    [
        ([stable(6), A], "illegal ('a')@5: insert('a')[5, 9) starts before the stable point 6"),
        (
            [adjust("a", start=5, end=8, new_end=9)],
            "illegal ('a')@5: adjust('a')[5, 8 -> 9) there is no such event",
        ),
        (
            [A, stable(6), adjust("a", start=5, end=9, new_end=5)],
            "illegal ('a')@5: adjust('a')[5, 9 withdrawn) changes something before the stable "
            "point 6",
        ),
    ],
)
def test_the_output_must_be_a_stream(output: list[Element], text: str, multiset: bool) -> None:
    one: list[Element] = [A, stable(6)]
    found = compatible({"one": one}, output, multiset=multiset)
    assert text in map(str, found)


def test_promises_of_an_input_count_from_what_it_stands_for() -> None:
    watch = MergeWatch()
    watch.attach("old")
    watch.attach("new", 8)
    watch.take("new", stable(20))
    watch.emit(stable(3))
    (wrong,) = watch.violations()
    assert str(wrong) == "C1: the output is stable at 3; old at -forever, new (from 8) at 20"
    watch.take("old", stable(7))
    assert (watch.violations(), watch.reached) == ([], 7)
    watch.take("old", stable(8))
    watch.emit(stable(20))
    assert (watch.violations(), watch.reached) == ([], 20)


@BOTH
def test_an_input_that_joins_stands_for_what_ends_later(multiset: bool) -> None:
    watch = MergeWatch(multiset=multiset)
    watch.attach("old")
    watch.attach("new", 8)
    watch.take("new", insert("x", start=3, end=6))
    watch.take("new", insert("y", start=4, end=7))
    watch.take("new", stable(7))
    watch.take("old", stable(7))
    watch.emit(stable(7))
    assert watch.violations() == []
    watch.take("new", insert("z", start=7, end=8))
    for name in ("new", "old"):
        watch.take(name, stable(9))
    watch.emit(stable(9))
    assert [(each.rule, each.event) for each in watch.violations()] == [("C3.1", (("z",), 7))]


@BOTH
def test_what_an_input_has_frozen_stays_a_fact_when_it_leaves(multiset: bool) -> None:
    watch = MergeWatch(multiset=multiset)
    watch.attach("one")
    for element in (A, insert("b", start=7, end=9), stable(7)):
        watch.take("one", element)
    watch.detach("one")
    watch.take("one", stable(8))
    watch.attach("one")
    watch.take("one", stable(7))
    watch.emit(stable(7))
    (wrong,) = watch.violations()
    assert (wrong.rule, wrong.event) == ("C3.2", (("a",), 5))


@pytest.mark.parametrize(
    ("output", "wrong"),
    [
        (
            [A, adjust("a", start=5, end=9, new_end=8)],
            ["2 inserts and adjusts left the merge; 1 came"],
        ),
        ([A, insert("b", start=5, end=9)], ["2 inserts left", "2 inserts and adjusts left"]),
        ([A, stable(5)], ["1 stables left the merge; 0 came"]),
        ([A, adjust("a", start=5, end=9, new_end=5)], []),
    ],
)
def test_a_laconic_merge_says_no_more_than_it_hears(
    output: list[Element], wrong: list[str]
) -> None:
    watch = MergeWatch(laconic=True)
    watch.attach("one")
    watch.take("one", A)
    for element in output:
        watch.emit(element)
    found = [each.text for each in watch.violations() if each.rule == "chatty"]
    assert len(found) == len(wrong)
    assert all(text.startswith(part) for text, part in zip(found, wrong))


def test_adjusts_are_not_bounded_by_inserts() -> None:
    """One insert comes, and both a single input and a spurious event make the merge say more."""
    merge, watch = MergeModel("R3"), MergeWatch(laconic=True)
    watch.attach("one")
    merge.attach("one")
    stream: list[Element] = [A, stable(6)]
    for end in range(9, 15):
        stream += [adjust("a", start=5, end=end, new_end=end + 1), stable(end + 1)]
    for element in stream:
        watch.take("one", element)
        for said in merge.take("one", element):
            watch.emit(said)
        assert watch.violations() == []
    assert (watch.received.inserts, watch.emitted.inserts, watch.emitted.adjusts) == (1, 1, 6)


Spoil = Callable[[list[Element], Random], list[Element] | None]


def without_an_insert(said: list[Element], dice: Random) -> list[Element] | None:
    return without(said, lambda it: isinstance(it, Move) and it.end == it.start, dice)


def without_an_adjust(said: list[Element], dice: Random) -> list[Element] | None:
    return without(said, lambda it: isinstance(it, Move) and it.end != it.start, dice)


def without(
    said: list[Element], fits: Callable[[Element], bool], dice: Random
) -> list[Element] | None:
    found = [place for place, element in enumerate(said) if fits(element)]
    if not found:
        return None
    place = dice.choice(found)
    return said[:place] + said[place + 1 :]


def with_another_end(said: list[Element], dice: Random) -> list[Element] | None:
    """One too late or too early, so that no adjust finds it later, or it becomes final."""
    found = [
        place
        for place, it in enumerate(said)
        if isinstance(it, Move) and it.start < it.new_end < FOREVER
    ]
    if not found:
        return None
    place = dice.choice(found)
    move = said[place]
    assert isinstance(move, Move)
    other = Move(move.payload, move.start, move.end, move.new_end + 1)
    return [*said[:place], other, *said[place + 1 :]]


def with_an_early_promise(said: list[Element], dice: Random) -> list[Element] | None:
    """A promise that comes before what it makes final."""
    found = [
        place
        for place in range(1, len(said))
        if isinstance(said[place], Stable) and isinstance(said[place - 1], Move)
    ]
    if not found:
        return None
    place = dice.choice(found)
    swapped = list(said)
    swapped[place - 1], swapped[place] = swapped[place], swapped[place - 1]
    return swapped


def twice(said: list[Element], dice: Random) -> list[Element] | None:
    found = [place for place, element in enumerate(said) if isinstance(element, Move)]
    if not found:
        return None
    place = dice.choice(found)
    return [*said[: place + 1], *said[place:]]


def with_a_stranger(said: list[Element], dice: Random) -> list[Element] | None:
    promises = [it.time for it in said if isinstance(it, Stable)]
    if not promises or promises[0] <= BEGINNING + 1:
        return None
    return [insert("stranger", start=promises[0] - 1), *said]


@pytest.mark.parametrize(
    "spoil",
    [
        without_an_insert,
        without_an_adjust,
        with_another_end,
        with_an_early_promise,
        twice,
        with_a_stranger,
    ],
)
@pytest.mark.parametrize("case", MERGE_CASES)
def test_a_spoiled_output_is_found_out(spoil: Spoil, case: MergeCase) -> None:
    dice = Random(f"{case} {spoil.__name__}")
    found = tried = 0
    for _ in range(200):
        script = make_script(case, dice.randrange, max_inputs=3)
        merge = MergeModel(case)
        watch = MergeWatch(multiset=case in ("R1", "R4"))
        said: list[Element] = []
        for action in script.actions:
            match action:
                case ("attach", name, time):
                    watch.attach(name, time)
                    said += merge.attach(name, time)
                case ("detach", name):
                    watch.detach(name)
                    said += merge.detach(name)
                case ("element", name, element):
                    watch.take(name, element)
                    said += merge.take(name, element)
        spoiled = spoil(said, dice) if said[-1:] == [stable(FOREVER)] else None
        if spoiled is None or same(spoiled, said):
            continue
        tried += 1
        for element in spoiled:
            watch.emit(element)
        found += bool(watch.violations())
    if spoil is not without_an_adjust or case in ("R3", "R4"):
        assert tried > 5
    assert found == tried


def same(some: list[Element], others: list[Element]) -> bool:
    """Whether two legal streams tell of the same."""
    states = []
    for elements in (some, others):
        state = PhysicalState.empty()
        if any(state.take(element) for element in elements):
            return False
        states.append(state.events)
    return states[0] == states[1]


@given(CASES.flatmap(merge_scripts))
def test_copies_are_legal_and_tell_of_one_history(script: MergeScript) -> None:
    told = Counter((event.payload, event.start, event.new_end) for event in script.history)
    states: dict[str, tuple[int, PhysicalState]] = {}
    for action in script.actions:
        match action:
            case ("attach", name, time):
                states[name] = (time, PhysicalState.empty())
            case ("detach", name):
                assert name in states
            case ("element", name, element):
                _, state = states[name]
                assert state.take(element) == ""
                assert_case(script.case, element, state)
    for time, state in states.values():
        # What is final is in the history; all of it, if the copy stands for all.
        final = Counter({it: n for it, n in state.events.items() if time <= it[2] < state.stable})
        assert not final - told


def assert_case(case: MergeCase, element: Element, state: PhysicalState) -> None:
    if not isinstance(element, Move):
        return
    starts = [start for _, start, _ in state.events.elements()]
    if case in ("R0", "R1", "R2"):
        assert element.end == element.start == max(starts)
    if case == "R0":
        assert starts.count(element.start) == 1
    if case in ("R2", "R3"):
        keys = [(payload, start) for payload, start, _ in state.events.elements()]
        assert keys.count((element.payload, element.start)) <= 1


def test_scripts_show_what_they_are_there_for() -> None:
    """Copies leave, come again, join later, miss something, and reach the end of time or not."""
    dice = Random("merge")
    seen: Counter[str] = Counter()
    for number in range(200):
        script = make_script(MERGE_CASES[number % 5], dice.randrange)
        kinds = Counter((action[0], action[1]) for action in script.actions)
        seen["detached"] += any(kind == "detach" for kind, _ in kinds)
        seen["again"] += any(kind == "attach" and count > 1 for (kind, _), count in kinds.items())
        seen["joining"] += any(
            action[0] == "attach" and action[2] > BEGINNING for action in script.actions
        )
        said = [action[2] for action in script.actions if action[0] == "element"]
        seen["adjusts"] += any(isinstance(it, Move) and it.end > it.start for it in said)
        seen["withdrawals"] += any(
            isinstance(it, Move) and it.end > it.start == it.new_end for it in said
        )
        seen["ended"] += Stable(FOREVER) in said
        seen["open"] += Stable(FOREVER) not in said
        seen["many"] += len({action[1] for action in script.actions}) == 5
    assert all(seen[what] > 5 for what in seen), seen
    assert len(seen) == 8
