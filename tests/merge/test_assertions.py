"""A copy that is not what the user says it is ends the merge, with its name and the element."""

from __future__ import annotations

import pyarrow as pa
import pytest

from anabranch.algebra.analysis.merge_case import ORDERED, Case
from anabranch.algebra.merge import Merge, MergePolicy
from anabranch.algebra.source import Source
from anabranch.errors import PlanError, StreamError
from anabranch.model.time import BEGINNING
from anabranch.testing import Element, adjust, insert, stable
from tests.merge.driver import Driver
from tests.merge.test_divergence import says

A = insert("a", start=5, end=9)
HINT = "merge as a weaker case (r3, or r4 for multisets); rejoin an input that was restarted"

WRONG: list[tuple[list[Case], list[Element], str, str]] = [
    (
        ["r0", "r1", "r2"],
        [A, adjust("a", start=5, end=9, new_end=7)],
        "adjusts, but is declared insert-only",
        "('a') [5, 7)",
    ),
    (
        ["r0", "r1", "r2"],
        [A, adjust("a", start=5, end=9, new_end=5)],
        "adjusts, but is declared insert-only",
        "('a') [5, 5)",
    ),
    (
        ["r0", "r1", "r2"],
        [A, insert("b", start=4, end=6)],
        "goes back in time, after 5",
        "('b') [4, 6)",
    ),
    (
        ["r0"],
        [A, insert("b", start=5, end=6)],
        "has two elements of one start",
        "('b') [5, 6)",
    ),
    (
        ["r2", "r3"],
        [A, insert("b", start=5, end=6), insert("a", start=5, end=7)],
        "has two elements of one payload and start",
        "('a') [5, 7)",
    ),
    (
        ["r3"],
        [A, adjust("a", start=5, end=9, new_end=7), insert("a", start=5, end=6)],
        "has two elements of one payload and start",
        "('a') [5, 6)",
    ),
    (
        ["r3"],
        [A, insert("b", start=3, end=4), insert("c", start=8), insert("a", start=5, end=6)],
        "has two elements of one payload and start",
        "('a') [5, 6)",
    ),
]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(("cases", "elements", "what", "element"), WRONG)
def test_a_wrong_assertion_is_refused_in_three_parts(
    cases: list[Case], elements: list[Element], what: str, element: str, together: bool
) -> None:
    for case in cases:
        driver = asserted(case)
        actions = says("left", elements)
        if not together:
            for action in actions[:-1]:
                driver.step([action])
            actions = actions[-1:]
        with pytest.raises(StreamError) as caught:
            driver.step(actions)
        assert str(caught.value) == (
            f"input 'left' {what}\n  element {element}, merged as {case}\n  hint: {HINT}"
        )


LONG: list[Element] = [insert("a", start=start, end=500) for start in range(5, 200)]
BACK = insert("b", start=4, end=6)


@pytest.mark.parametrize("case", ORDERED)
def test_who_goes_far_back_and_does_not_come_again_is_refused(case: Case) -> None:
    cases: list[tuple[list[Element], str]] = [
        ([insert("c", start=300, end=301)], f"element ('c') [300, 301), merged as {case}"),
        ([stable(300)], f"an element that starts at 4, merged as {case}"),
        ([*LONG[-3:-1], insert("c", start=300, end=301)], "element ("),
    ]
    for wrong, where in cases:
        driver = asserted(case)
        driver.step(says("left", LONG))
        # It might be a repetition of something that is no longer remembered.
        assert driver.step(says("left", [BACK])) == []
        with pytest.raises(StreamError, match="goes back in time, after 199") as caught:
            driver.step(says("left", wrong))
        assert str(caught.value.where).startswith(where)


@pytest.mark.parametrize("case", ORDERED)
def test_who_goes_far_back_in_one_batch_is_named_with_what_went_back(case: Case) -> None:
    driver = asserted(case)
    with pytest.raises(StreamError, match="goes back in time, after 199") as caught:
        driver.step(says("left", [*LONG, BACK, insert("c", start=300, end=301)]))
    assert caught.value.where == f"element ('b') [4, 6), merged as {case}"


@pytest.mark.parametrize("case", ["r2", "r3"])
def test_what_two_inputs_say_differently_is_no_wrong_assertion(case: Case) -> None:
    driver = asserted(case)
    assert driver.step([*says("left", [A]), *says("right", [insert("a", start=5, end=7)])]) == [A]


@pytest.mark.parametrize("case", ["r2", "r3"])
def test_the_same_element_again_does_no_harm(case: Case) -> None:
    driver = asserted(case)
    assert driver.step(says("left", [A, A])) == [A]
    assert driver.step(says("left", [A])) == []


@pytest.mark.parametrize("case", ["r0", "r1", "r2", "r3"])
def test_an_input_that_comes_again_may_begin_again(case: Case) -> None:
    driver = asserted(case)
    driver.step(says("left", [A]))
    driver.step([("attach", "left", BEGINNING)])
    again = insert("a", start=5, end=7)
    assert driver.step(says("left", [insert("b", start=4, end=6)])) == (
        [insert("b", start=4, end=6)] if case == "r3" else []
    )
    assert driver.step(says("left", [again])) == []


def test_an_event_may_be_taken_back_and_inserted_again() -> None:
    driver = asserted("r3")
    gone = adjust("a", start=5, end=9, new_end=5)
    driver.step(says("left", [A, gone, insert("a", start=5, end=7)]))
    driver.step(says("left", [adjust("a", start=5, end=7, new_end=5)]))
    driver.step(says("left", [insert("a", start=5, end=8)]))


def test_at_later_starts_a_payload_may_come_again() -> None:
    driver = asserted("r2")
    for start in (5, 6, 6, 7):
        driver.step(says("left", [insert("a", start=start, end=9)]))
        driver.step(says("right", [insert("a", start=start, end=9), stable(start)]))
    (trace,) = driver.traces
    assert sum(map(len, trace.runs["said"])) == 2


def test_what_is_known_of_the_source_is_not_looked_at() -> None:
    driver = Driver("r3", MergePolicy())
    driver.step([("attach", "left", BEGINNING)])
    assert driver.step(says("left", [A, insert("a", start=5, end=7)])) != []


def asserted(case: Case) -> Driver:
    driver = Driver(case, MergePolicy(), asserted=True)
    assert driver.kernel.node.is_asserted
    driver.step([("attach", "left", BEGINNING), ("attach", "right", BEGINNING)])
    return driver


@pytest.mark.parametrize("case", ORDERED)
@pytest.mark.parametrize("divergence", ["quarantine", "fail"])
def test_what_is_not_remembered_cannot_be_compared(case: Case, divergence: str) -> None:
    source = Source(
        name="a", schema=pa.schema([("v", pa.int64())]), insert_only=True, order="strict"
    )
    policy = MergePolicy.of(divergence=divergence)
    with pytest.raises(PlanError, match=f"as {case}, a merge remembers too little"):
        Merge(inputs=(source,), case=case, policy=policy)
    assert Merge(inputs=(source,)).chosen == "r0"
    assert Merge(inputs=(source,), policy=policy).chosen == "r3"
