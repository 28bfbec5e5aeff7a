"""One element at a time, the kernel says what the model of a merge says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.merge import MergePolicy
from anabranch.kernels.trace import runs
from anabranch.model.time import BEGINNING
from anabranch.testing import (
    MERGE_CASES,
    Element,
    KitStable,
    Lag,
    MergeCase,
    MergeModel,
    MergeScript,
    insert,
    make_script,
    merge_scripts,
    stable,
)
from tests.merge.driver import Driver
from tests.merge.histories import LAGS, kernel_case


def assert_agrees_with_model(script: MergeScript, lag: int) -> None:
    model = MergeModel(script.case, stable=Lag(lag) if lag else "max")
    driver = Driver(kernel_case(script.case), MergePolicy.of(lag=lag))
    for number, action in enumerate(script.actions, start=1):
        match action:
            case ("attach", name, time):
                expected = model.attach(name, time)
            case ("detach", name):
                expected = model.detach(name)
            case ("element", name, element):
                expected = model.take(name, element)
        found = driver.step([action])
        before = MergeScript(script.case, script.history, script.actions[:number])
        assert ordered(script.case, found) == ordered(script.case, expected), before


def ordered(case: MergeCase, said: list[Element]) -> Counter[Hashable]:
    """The moves in any order, and the last promise: of several in a step, one leaves the kernel.

    A multiset may be completed with any of the ends that it lacks, so only the kinds of moves
    count, and of those that a promise prompts only what they lead to.
    """
    promises = [each for each in said if isinstance(each, KitStable)][-1:]
    moves = [each for each in said if not isinstance(each, KitStable)]
    if case != "R4":
        return Counter([*moves, *promises])
    more: Counter[Hashable] = Counter(promises)
    for move in moves:
        more[move.payload, move.start] += (move.new_end > move.start) - (move.end > move.start)
    return Counter({what: count for what, count in more.items() if count})


@given(st.data(), st.sampled_from(MERGE_CASES), st.sampled_from(LAGS))
def test_the_kernel_says_what_the_model_says(
    data: st.DataObject, case: MergeCase, lag: int
) -> None:
    assert_agrees_with_model(data.draw(merge_scripts(case, lag=lag, max_inputs=3)), lag)


@pytest.mark.parametrize("case", MERGE_CASES)
def test_many_copies_thrown_with_dice(case: MergeCase) -> None:
    dice = Random(f"model {case}")
    with patch.object(runs, "MERGE_ALL_UP_TO_ROWS", 0):
        for _ in range(5):
            lag = dice.choice(LAGS)
            assert_agrees_with_model(make_script(case, dice.randrange, lag=lag), lag)


@pytest.mark.parametrize("inserts", ["first", "quorum(100%)"])
@pytest.mark.parametrize("case", MERGE_CASES)
def test_a_joining_input_prompts_nothing_and_counts_when_it_has_joined(
    case: MergeCase, inserts: str
) -> None:
    if case not in ("R3", "R4"):
        inserts = "first"
    driver = Driver(kernel_case(case), MergePolicy.of(inserts=inserts))
    driver.step([("attach", "old", BEGINNING), ("attach", "new", 8)])
    late = insert("d", start=9, end=12)
    for element in (late, stable(10)):
        assert driver.step([("element", "new", element)]) == []
    early = insert("a", start=5, end=6)
    assert driver.step([("element", "old", early)]) == [early]
    assert driver.step([("element", "old", stable(7))]) == [stable(7)]
    # What it said while it was joining leaves now, and its promise counts.
    assert driver.step([("element", "old", stable(8))]) == [late, stable(10)]
