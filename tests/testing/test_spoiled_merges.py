"""The checker of merges finds faults in what a merge says, whoever asks when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from anabranch.model.time import BEGINNING, FOREVER
from anabranch.testing import (
    MERGE_CASES,
    Element,
    KitStable,
    MergeCase,
    MergeModel,
    MergeScript,
    MergeWatch,
    Move,
    PhysicalState,
    insert,
    make_script,
    stable,
)

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
        if isinstance(said[place], KitStable) and isinstance(said[place - 1], Move)
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
    promises = [it.time for it in said if isinstance(it, KitStable)]
    if not promises or promises[0] <= BEGINNING + 1:
        return None
    return [insert("stranger", start=promises[0] - 1), *said]


SPOILS: list[Spoil] = [
    without_an_insert,
    without_an_adjust,
    with_another_end,
    with_an_early_promise,
    twice,
    with_a_stranger,
]


@pytest.mark.parametrize("spoil", SPOILS)
@pytest.mark.parametrize("case", MERGE_CASES)
def test_a_spoiled_output_is_found_out(spoil: Spoil, case: MergeCase) -> None:
    dice = Random(f"{case} {spoil.__name__}")
    found = tried = 0
    for _ in range(200):
        script = make_script(case, dice.randrange, max_inputs=3)
        watch, said = watched(script, MergeWatch(multiset=case in ("R1", "R4")))
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


def watched(script: MergeScript, watch: MergeWatch) -> tuple[MergeWatch, list[Element]]:
    """A watch that has seen all inputs and no output yet, and what the model says."""
    merge = MergeModel(script.case)
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
    return watch, said


@pytest.mark.parametrize("multiset", [False, True])
@pytest.mark.parametrize("case", ["R3", "R4"])
def test_who_asks_often_hears_the_same(case: MergeCase, multiset: bool) -> None:
    """Inputs that contradict each other, and an output with faults, as one step after the other."""
    dice = Random(f"often {case}")
    wrong = 0
    for _ in range(60):
        script = make_script(case, dice.randrange, max_inputs=3)
        other = make_script(case, dice.randrange, max_inputs=2)
        _, said = watched(script, MergeWatch())
        said = dice.choice(SPOILS)(said, dice) or said
        mixed = [*script.actions, *other.actions]
        dice.shuffle(mixed)
        often = MergeWatch(multiset=multiset)
        steps: list[Callable[[MergeWatch], None]] = [
            partial(MergeWatch.attach, name=name) for name in ("one", "two", "three")
        ]
        for action in mixed:
            if action[0] == "element":
                steps.append(partial(MergeWatch.take, name=action[1], element=action[2]))
            elif action[0] == "attach":
                steps.append(partial(MergeWatch.attach, name=action[1], from_time=action[2]))
            if said and dice.randrange(3):
                steps.append(partial(MergeWatch.emit, element=said.pop(0)))
        for count, step in enumerate(steps, start=1):
            step(often)
            now = {(it.rule, it.event) for it in often.violations()}
            wrong += bool(now)
            if count % 5 == 0:
                once = MergeWatch(multiset=multiset)
                for each in steps[:count]:
                    each(once)
                assert now == {(it.rule, it.event) for it in once.violations()}
    assert wrong


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_key_is_a_multiset_with_one_event_each(spoil: Spoil) -> None:
    dice = Random(f"both {spoil.__name__}")
    for _ in range(50):
        script = make_script("R3", dice.randrange)
        one, said = watched(script, MergeWatch())
        many, _ = watched(script, MergeWatch(multiset=True))
        spoiled = spoil(said, dice) or said
        held: Counter[object] = Counter()
        for element in spoiled[: dice.randrange(len(spoiled) + 1)]:
            one.emit(element)
            many.emit(element)
            if isinstance(element, Move) and element.end == element.start:
                held[element.payload, element.start] += 1
        wrong = {it.event for it in one.violations()} ^ {it.event for it in many.violations()}
        assert all(held[event] > 1 for event in wrong)


def same(some: list[Element], others: list[Element]) -> bool:
    """Whether two legal streams tell of the same."""
    states = []
    for elements in (some, others):
        state = PhysicalState.empty()
        if any(state.take(element) for element in elements):
            return False
        states.append(state.events)
    return states[0] == states[1]
