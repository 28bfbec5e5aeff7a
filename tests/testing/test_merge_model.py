"""The model of a merge never says what it cannot take back, whatever its inputs do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from anabranch.errors import AnabranchError, PlanError, StreamError
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.testing import (
    MERGE_CASES,
    Element,
    KitStable,
    Lag,
    MergeCase,
    MergeModel,
    MergeScript,
    MergeWatch,
    Quorum,
    adjust,
    assert_merges,
    insert,
    make_script,
    merge_scripts,
    stable,
)

INSERTS = ["first", "leading", "half_frozen", Quorum(2), Quorum(0.5), Quorum(1.0)]
ADJUSTS = ["lazy", "eager", "leading"]
STABLES: list[Any] = ["max", Lag(1), Lag(4)]
CASES = st.sampled_from(MERGE_CASES)


def lag_of(policy: str | Lag) -> int:
    return policy.by if isinstance(policy, Lag) else 0


def run(script: MergeScript, **policies: Any) -> list[Element]:
    """Let the model merge; it says all that an input has promised which it may follow."""
    model = MergeModel(script.case, **policies)
    is_default = set(policies.values()) <= {"first", "lazy", "max"}
    said = assert_merges(script, model, laconic=script.case == "R3" and is_default)
    assert model.divergences == 0
    promises: dict[str, int] = {}
    for action in script.actions:
        match action:
            case ("attach", name, _):
                promises[name] = BEGINNING
            case ("element", name, element) if isinstance(element, KitStable):
                promises[name] = max(promises[name], element.time)
    lag = lag_of(policies.get("stable", "max"))
    assert all(min(promises[name], FOREVER - 1) - lag <= model.stable for name in model.joined())
    return said


@given(CASES.flatmap(merge_scripts))
def test_default_policies_follow_any_copies(script: MergeScript) -> None:
    run(script)


@given(
    st.data(),
    st.sampled_from(["R3", "R4"]),
    st.sampled_from(INSERTS),
    st.sampled_from(ADJUSTS),
    st.sampled_from(STABLES),
)
def test_all_policies_follow_any_copies(
    data: st.DataObject, case: MergeCase, inserts: Any, adjusts: Any, promise: Any
) -> None:
    script = data.draw(merge_scripts(case, lag=lag_of(promise)))
    run(script, inserts=inserts, adjusts=adjusts, stable=promise)


@given(st.data(), CASES, st.sampled_from(STABLES))
def test_promises_may_lag(data: st.DataObject, case: MergeCase, promise: Any) -> None:
    script = data.draw(merge_scripts(case, lag=lag_of(promise)))
    run(script, stable=promise)


@pytest.mark.parametrize("case", MERGE_CASES)
def test_many_copies_thrown_with_dice(case: MergeCase) -> None:
    dice = Random(f"merge as {case}")
    for _ in range(60):
        promise = dice.choice(STABLES)
        script = make_script(case, dice.randrange, lag=lag_of(promise))
        policies: dict[str, Any] = {"stable": promise}
        if case in ("R3", "R4"):
            policies |= {"inserts": dice.choice(INSERTS), "adjusts": dice.choice(ADJUSTS)}
        run(script, **policies)


@given(
    merge_scripts("R3"),
    st.sampled_from(INSERTS),
    st.sampled_from(ADJUSTS),
)
def test_a_multiset_without_duplicates_is_merged_as_with_a_key(
    script: MergeScript, inserts: Any, adjusts: Any
) -> None:
    said = run(script, inserts=inserts, adjusts=adjusts)
    again = MergeScript("R4", script.history, script.actions)
    assert run(again, inserts=inserts, adjusts=adjusts) == said


@pytest.mark.parametrize("weaker", ["R2", "R3", "R4"])
@given(script=merge_scripts("R0"))
def test_a_weaker_case_is_sound(script: MergeScript, weaker: MergeCase) -> None:
    # What copies may miss depends on the case; one that left and came back may miss what the other
    # brought meanwhile, so it is not whole by itself.
    whole = [action for action in script.actions if action[1] == "one"]
    assume(("detach", "one") not in whole)
    run(MergeScript(weaker, script.history, tuple(whole)))


A = insert("a", start=5, end=9)


@pytest.mark.parametrize("case", ["R0", "R1", "R2"])
def test_ordered_streams_have_no_adjusts(case: MergeCase) -> None:
    said = refused(case, [A, adjust("a", start=5, end=9, new_end=7)])
    assert said == (
        f"a stream declared as {case} has an adjust\n"
        "  input 'left': adjust('a')[5, 9 -> 7)\n"
        "  hint: it is not insert-only: merge as R3, or as R4 if payloads may start together twice"
    )


@pytest.mark.parametrize(
    ("cases", "elements", "wrong"),
    [
        (["R0", "R1", "R2"], [A, insert("b", start=4, end=9)], "goes back in time, from start 5"),
        (["R0"], [A, insert("b", start=5, end=9)], "has two events with one start"),
        (["R2", "R3"], [A, insert("a", start=5, end=7)], "two events with one payload and start"),
        (["R3"], [A, stable(7), insert("a", start=5, end=8)], "two events with one payload"),
    ],
)
def test_a_wrong_assertion_is_refused_with_input_and_element(
    cases: list[MergeCase], elements: list[Element], wrong: str
) -> None:
    for case in cases:
        said = refused(case, elements)
        assert f"a stream declared as {case} " in said
        assert wrong in said
        assert f"\n  input 'left': {elements[-1]!r}\n  hint: " in said


def refused(case: MergeCase, elements: list[Element]) -> str:
    model = MergeModel(case)
    model.attach("right")
    model.attach("left")
    for element in elements[:-1]:
        model.take("left", element)
        model.take("right", element)
    with pytest.raises(StreamError) as caught:
        model.take("left", elements[-1])
    return str(caught.value)


def test_an_input_that_comes_again_may_repeat_itself() -> None:
    for case in MERGE_CASES:
        model = MergeModel(case)
        model.attach("left")
        assert model.take("left", A) == [A]
        model.detach("left")
        assert model.take("left", A) == []
        model.attach("left")
        assert model.take("left", A) == []
        assert model.take("left", stable(FOREVER)) == [stable(FOREVER)]


def test_policies_that_need_a_memory_need_r3_or_r4() -> None:
    with pytest.raises(PlanError, match="a merge as R1 emits every event at once"):
        MergeModel("R1", inserts="half_frozen")


def test_an_input_must_be_attached() -> None:
    model = MergeModel("R3")
    model.attach("left")
    steps: list[Callable[[], object]] = [
        lambda: model.take("right", A),
        lambda: model.detach("right"),
    ]
    for step in steps:
        with pytest.raises(AnabranchError, match="an input speaks that was never attached"):
            step()


def test_a_joining_input_never_leads_and_is_heard_when_it_has_joined() -> None:
    for case in MERGE_CASES:
        model = MergeModel(case)
        model.attach("old")
        model.attach("new", 8)
        assert model.take("new", insert("b", start=6, end=12)) == []
        assert model.take("new", insert("d", start=9, end=12)) == []
        assert model.take("new", stable(FOREVER)) == []
        assert model.joined() == ["old"]
        assert model.take("old", insert("a", start=5, end=6)) == [insert("a", start=5, end=6)]
        assert model.take("old", insert("b", start=6, end=12)) == [insert("b", start=6, end=12)]
        assert model.take("old", stable(8)) == [
            stable(8),
            insert("d", start=9, end=12),
            stable(FOREVER),
        ]
        assert model.joined() == ["old", "new"]


@pytest.mark.parametrize("case", ["R0", "R1", "R2"])
def test_what_one_input_misses_another_may_bring_before_the_first_is_past_it(
    case: MergeCase,
) -> None:
    early, late = insert("b", start=3, end=4), insert("c", start=6, end=7)
    model = MergeModel(case)
    model.attach("whole")
    model.attach("gaps")
    assert model.take("whole", early) == [early]
    assert model.take("gaps", late) == [late]
    assert model.take("whole", A) == []
    assert model.take("whole", late) == []
    assert model.take("whole", insert("d", start=7, end=8)) == [insert("d", start=7, end=8)]


@pytest.mark.parametrize("case", ["R3", "R4"])
def test_who_promises_first_decides_what_there_is(case: MergeCase) -> None:
    model = MergeModel(case)
    model.attach("whole")
    model.attach("gaps")
    first, second = insert("b", start=3, end=4), insert("c", start=6, end=7)
    for event in (first, second):
        assert model.take("whole", event) == [event]
    assert model.take("whole", stable(5)) == [stable(5)]
    assert model.take("gaps", stable(6)) == [stable(6)]
    assert model.take("gaps", stable(7)) == [
        adjust("c", start=6, end=7, new_end=6),
        stable(7),
    ]
    assert model.take("whole", stable(FOREVER)) == [stable(FOREVER)]
    assert model.divergences == 0


def test_inputs_that_contradict_each_other_leave_the_output_legal() -> None:
    """The leading input lacks an event that is there for good; who has it says its end."""
    cases: list[MergeCase] = ["R3", "R4"]
    script: list[tuple[str, Element]] = [
        ("with", A),
        ("with", stable(6)),
        ("with", adjust("a", start=5, end=9, new_end=8)),
        ("without", stable(FOREVER)),
    ]
    for case in cases:
        model, watch = MergeModel(case), MergeWatch(multiset=case == "R4")
        said: list[Element] = []
        for name in ("with", "without"):
            model.attach(name)
            watch.attach(name)
        for name, element in script:
            watch.take(name, element)
            for each in model.take(name, element):
                watch.emit(each)
                said.append(each)
        assert said == [A, stable(6), adjust("a", start=5, end=9, new_end=8), stable(FOREVER)]
        assert model.divergences == 1
        assert {each.rule for each in watch.violations()} == {"C2"}


def test_unequal_numbers_of_final_events_leave_the_output_legal() -> None:
    model, watch = MergeModel("R4"), MergeWatch(multiset=True)
    for name in ("two", "one"):
        model.attach(name)
        watch.attach(name)
    script: list[tuple[str, Element]] = [
        ("two", insert("a", start=5, end=7)),
        ("two", insert("a", start=5, end=9)),
        ("two", stable(6)),
        ("one", insert("a", start=5, end=8)),
        ("one", stable(FOREVER)),
    ]
    for name, element in script:
        watch.take(name, element)
        for each in model.take(name, element):
            watch.emit(each)
    assert model.divergences == 1
    assert [end for _, _, end in watch.events()] == [8, 9]
    assert "illegal" not in {each.rule for each in watch.violations()}


def test_a_late_event_after_a_promise_without_it_is_dropped() -> None:
    model = MergeModel("R0")
    model.attach("with")
    model.attach("without")
    assert model.take("without", stable(7)) == [stable(7)]
    assert model.take("with", A) == []
    assert model.divergences == 1
    assert model.stable == 7 > BEGINNING
