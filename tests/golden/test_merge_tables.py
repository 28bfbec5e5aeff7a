"""The worked examples of Chandramouli et al. on merging: what may be said, and what is said."""

from __future__ import annotations

import re

import pytest

from anabranch.model.time import FOREVER
from anabranch.testing import (
    Element,
    MergeModel,
    MergeWatch,
    PhysicalState,
    adjust,
    compatible,
    insert,
    stable,
    violations,
)


def elements(text: str) -> list[Element]:
    """`A[2,16) adj B[8,15)10 last 14`: events as inserts, adjusts, and a promise."""
    found: list[Element] = []
    for kind, name, start, end, new_end, last in re.findall(
        r"(adj )?(\w)\[(\d+),(\d+|inf)\)(\d*)|last (\d+|inf)", text
    ):
        if last:
            found.append(stable(time(last)))
        elif kind:
            found.append(adjust(name, start=int(start), end=time(end), new_end=int(new_end)))
        else:
            found.append(insert(name, start=int(start), end=time(end)))
    return found


def time(text: str) -> int:
    return FOREVER if text == "inf" else int(text)


I1 = "A[2,16) B[3,10) C[4,18) D[15,20) last 14"
I2 = "A[2,12) B[3,10) C[4,18) E[17,21) last 11"


@pytest.mark.parametrize(
    ("output", "wrong"),
    [
        ("A[2,inf) B[3,10) C[4,inf) last 11", []),
        ("A[2,16) B[3,10) C[4,18) D[15,20) E[17,21) last 14", []),
        (
            "A[2,12) C[4,18) D[15,20) last 13",
            [
                "C2 ('A')@2: the output has [2, 12) frozen at 13; "
                "I1 has [2, 16) half frozen at 14, I2 has [2, 12) half frozen at 11",
                "C3.1 ('B')@3: the output has nothing at 13; "
                "I1 has [3, 10) frozen at 14, I2 has [3, 10) frozen at 11",
            ],
        ),
    ],
)
def test_outputs_that_are_compatible_with_two_inputs_and_one_that_is_not(
    output: str, wrong: list[str]
) -> None:
    inputs = {"I1": elements(I1), "I2": elements(I2)}
    found = compatible(inputs, elements(output))
    assert sorted(map(str, found)) == wrong
    many = compatible(inputs, elements(output), multiset=True)
    assert {(each.rule, each.event) for each in many} == {(each.rule, each.event) for each in found}


PHY1 = "B[8,inf) A[6,12) adj B[8,inf)10 last 11 last inf"
PHY2 = "A[6,7) B[8,15) adj A[6,7)12 adj B[8,15)10 last inf"


@pytest.mark.parametrize("text", [PHY1, PHY2])
def test_two_physical_streams_tell_of_the_same_events(text: str) -> None:
    state = PhysicalState.empty()
    assert not list(violations(elements(text), state))
    assert dict(state.events) == {(("A",), 6, 12): 1, (("B",), 8, 10): 1}


def test_a_promise_waits_until_what_it_makes_final_is_right() -> None:
    watch = MergeWatch()
    for name, text in (("Phy1", PHY1.removesuffix(" last inf")), ("Phy2", "A[6,7) B[8,15)")):
        watch.attach(name)
        for element in elements(text):
            watch.take(name, element)
    for element in elements("A[6,7) B[8,15)"):
        watch.emit(element)
    assert watch.violations() == []
    watch.emit(stable(11))
    assert sorted((each.rule, each.event) for each in watch.violations()) == [
        ("C2", (("A",), 6)),
        ("C2", (("B",), 8)),
    ]


def test_phy1_and_phy2_are_merged_into_what_both_tell() -> None:
    model, watch = MergeModel("R3"), MergeWatch(laconic=True)
    for name in ("Phy1", "Phy2"):
        model.attach(name)
        watch.attach(name)
    script = [("Phy2", element) for element in elements("A[6,7) B[8,15)")]
    script += [("Phy1", element) for element in elements(PHY1)]
    said: list[Element] = []
    for name, element in script:
        watch.take(name, element)
        for each in model.take(name, element):
            said.append(each)
            watch.emit(each)
        assert watch.violations() == []
    assert said == elements("A[6,7) B[8,15) adj A[6,7)12 adj B[8,15)10 last 11 last inf")


TABLE: list[tuple[str, str]] = [
    ("In1", "A[6,10)"),
    ("In2", "A[6,12)"),
    ("In2", "B[7,14)"),
    ("In1", "adj A[6,10)15"),
    ("In2", "adj A[6,12)15"),
    ("In2", "last 16"),
]


@pytest.mark.parametrize(
    ("model", "steps"),
    [
        (
            MergeModel("R3", adjusts="eager"),
            ["A[6,10)", "adj A[6,10)12", "B[7,14)", "adj A[6,12)15", "", "last 16"],
        ),
        (
            MergeModel("R3", inserts="half_frozen"),
            ["", "", "", "", "", "A[6,15) B[7,14) last 16"],
        ),
        (
            MergeModel("R3"),
            ["A[6,10)", "", "B[7,14)", "", "", "adj A[6,10)15 last 16"],
        ),
        (
            MergeModel("R4"),
            ["A[6,10)", "", "B[7,14)", "", "", "adj A[6,10)15 last 16"],
        ),
    ],
    ids=["eager", "conservative", "default", "multiset"],
)
def test_how_chatty_the_policies_are(model: MergeModel, steps: list[str]) -> None:
    model.attach("In1")
    model.attach("In2")
    said = [model.take(name, elements(text)[0]) for name, text in TABLE]
    assert said == [elements(step) for step in steps]
