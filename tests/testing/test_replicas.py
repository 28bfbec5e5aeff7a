"""Drawn copies of a stream are legal, differ as they may, and tell of one history."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.time import BEGINNING, FOREVER
from anabranch.testing import (
    MERGE_CASES,
    Element,
    KitStable,
    MergeCase,
    MergeScript,
    Move,
    PhysicalState,
    insert,
    make_script,
    merge_scripts,
    stable,
)

CASES = st.sampled_from(MERGE_CASES)


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
        seen["ended"] += KitStable(FOREVER) in said
        seen["open"] += KitStable(FOREVER) not in said
        seen["gaps"] += misses_something(script)
        seen["many"] += len({action[1] for action in script.actions}) == 5
    assert all(seen[what] > 5 for what in seen), seen
    assert len(seen) == 9


def misses_something(script: MergeScript) -> bool:
    """A copy that is there from the beginning says something, and not of an event before that."""
    heard: dict[str, set[tuple[object, int]]] = {}
    for action in script.actions:
        match action:
            case ("attach", name, time):
                heard[name] = set()
                if time > BEGINNING:
                    del heard[name]
            case ("element", name, element) if name in heard:
                if isinstance(element, Move):
                    heard[name].add((element.payload, element.start))
                elif any(
                    event.start < element.time and (event.payload, event.start) not in heard[name]
                    for event in script.history
                ):
                    return True
    return False


def test_a_script_can_be_read() -> None:
    script = MergeScript(
        "R3",
        (insert("a", start=5, end=9),),
        (
            ("attach", "one", BEGINNING),
            ("element", "one", insert("a", start=5, end=9)),
            ("element", "one", stable(FOREVER)),
            ("detach", "one"),
        ),
    )
    assert repr(script) == (
        "copies as in R3 of insert('a')[5, 9)\n"
        "  one: attach from -forever\n"
        "  one: insert('a')[5, 9)\n"
        "  one: stable(forever)\n"
        "  one: detach"
    )
