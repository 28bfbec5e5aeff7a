"""The worked examples of Chandramouli et al. on merging, as the kernel merges them."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.golden.test_merge_tables import I1, I2, PHY1, TABLE, elements
from tests.merge.driver import Driver

from anabranch.algebra.analysis.merge_case import Case
from anabranch.algebra.merge import MergePolicy
from anabranch.model.time import BEGINNING
from anabranch.testing import Element, KitStable, compatible

POLICIES = {
    "default": MergePolicy.of(),
    "eager": MergePolicy.of(adjusts="eager"),
    "conservative": MergePolicy.of(inserts="half_frozen"),
}
KEYED_AND_NOT: list[Case] = ["r3", "r4"]


def merged(case: Case, policy: str, steps: list[tuple[str, str]]) -> list[list[Element]]:
    """What leaves in each step; each step is a batch with what one input says."""
    driver = Driver(case, POLICIES[policy])
    driver.step([("attach", name, BEGINNING) for name in dict.fromkeys(name for name, _ in steps)])
    return [driver.step([("element", name, it) for it in elements(text)]) for name, text in steps]


def assert_says(found: list[list[Element]], expected: list[str]) -> None:
    """The moves of a step may leave in any order, its promise is the last."""
    for each in found:
        assert not any(isinstance(element, KitStable) for element in each[:-1])
    assert list(map(Counter, found)) == [Counter(elements(text)) for text in expected]


@pytest.mark.parametrize("case", KEYED_AND_NOT)
@pytest.mark.parametrize(
    ("policy", "steps"),
    [
        ("eager", ["A[6,10)", "adj A[6,10)12", "B[7,14)", "adj A[6,12)15", "", "last 16"]),
        ("conservative", ["", "", "", "", "", "A[6,15) B[7,14) last 16"]),
        ("default", ["A[6,10)", "", "B[7,14)", "", "", "adj A[6,10)15 last 16"]),
    ],
)
def test_how_chatty_the_policies_are(case: Case, policy: str, steps: list[str]) -> None:
    assert_says(merged(case, policy, TABLE), steps)


@pytest.mark.parametrize("case", KEYED_AND_NOT)
@pytest.mark.parametrize(
    ("policy", "steps"),
    [
        ("default", ["A[6,7) B[8,15)", "", "adj A[6,7)12 adj B[8,15)10 last 11", "last inf"]),
        ("eager", ["A[6,7) B[8,15)", "adj A[6,7)12 adj B[8,15)10", "last 11", "last inf"]),
        ("conservative", ["", "", "A[6,12) B[8,10) last 11", "last inf"]),
    ],
)
def test_a_promise_waits_until_what_it_makes_final_is_right(
    case: Case, policy: str, steps: list[str]
) -> None:
    said = PHY1.removesuffix(" last 11 last inf")
    script = [("Phy2", "A[6,7) B[8,15)"), ("Phy1", said), ("Phy1", "last 11"), ("Phy1", "last inf")]
    assert_says(merged(case, policy, script), steps)


@pytest.mark.parametrize("case", KEYED_AND_NOT)
@pytest.mark.parametrize(
    ("policy", "steps"),
    [
        (
            "default",
            [
                "A[2,12) B[3,10) C[4,18) E[17,21) last 11",
                "D[15,20) adj A[2,12)16 last 14",
            ],
        ),
        (
            "eager",
            [
                "A[2,12) B[3,10) C[4,18) E[17,21) last 11",
                "adj A[2,12)16 D[15,20) last 14",
            ],
        ),
        (
            "conservative",
            [
                "A[2,12) B[3,10) C[4,18) last 11",
                "adj A[2,12)16 last 14",
            ],
        ),
    ],
)
def test_two_inputs_with_half_frozen_events(case: Case, policy: str, steps: list[str]) -> None:
    found = merged(case, policy, [("I2", I2), ("I1", I1)])
    assert_says(found, steps)
    said = [each for output in found for each in output]
    assert compatible({"I1": elements(I1), "I2": elements(I2)}, said, multiset=case == "r4") == []
    # The other way round I2 has nothing to say any more.
    first, second = merged(case, policy, [("I1", I1), ("I2", I2)])
    late = [] if policy == "conservative" else elements("E[17,21)")
    assert second == late
    both = elements("A[2,16) B[3,10) C[4,18)")
    assert Counter(first) == Counter([*both, *elements("D[15,20)" if late else ""), *first[-1:]])
