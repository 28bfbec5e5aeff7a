"""A merge takes in copies that promise less than those with which it began."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.analysis.merge_case import CASES, Case
from anabranch.algebra.merge import MergePolicy
from anabranch.kernels.contract.command import WEAKEN, Command
from anabranch.kernels.trace import runs
from anabranch.model.time import BEGINNING
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.state_store import ShardStore
from anabranch.testing import Element, MergeCase, adjust, insert, make_script, stable
from anabranch.testing.replicas import Action
from tests.merge.driver import Driver, batches
from tests.merge.histories import any_sizes, assert_merges, draw_policy, kernel_case

STEPS: list[tuple[MergeCase, MergeCase]] = [
    ("R0", "R3"),
    ("R0", "R4"),
    ("R1", "R4"),
    ("R2", "R3"),
    ("R2", "R4"),
    ("R3", "R4"),
]


class WeakenedDriver(Driver):
    """A merge that is told to go over to a weaker case when weak copies first say something."""

    def __init__(
        self,
        case: Case,
        policy: MergePolicy,
        weak: frozenset[str],
        *steps: Case,
        shards: int = 1,
        settles: bool = False,
    ) -> None:
        super().__init__(case, policy, shards=shards, settles=settles)
        self.weak = weak
        self.steps = list(steps)

    def step(self, actions: Sequence[Action]) -> list[Element]:
        if self.steps and any(action[1] in self.weak for action in actions):
            value = CASES.index(self.steps.pop(0))
            self.commands = (Command(verb=WEAKEN, source="copies", value=value),)
        said = super().step(actions)
        self.commands = ()
        return said


def check(strong: MergeCase, weak: MergeCase, seed: object) -> None:
    """A history thrown with dice, told by copies of both kinds, in any batches, on any shards."""
    dice = Random(f"{strong} {weak} {seed}")
    gaps = dice.random() < 0.3 and strong != "R1"
    fixed = {"divergence": "fail"} if strong == "R3" and not gaps else {}
    policy = draw_policy(strong, dice, **fixed)
    script = make_script(strong, dice.randrange, lag=policy.lag, gaps=gaps, weaker=weak)
    sizes = any_sizes(dice, dice.choice([1, 1, 3, 8, 20]))
    steps: list[Case] = [kernel_case(weak)]
    if strong == "R0" and weak == "R4" and dice.random() < 0.5:
        steps = ["r3", "r4"]
        # Two weak copies come one after the other; the first of them is no multiset.
        script = make_script(strong, dice.randrange, lag=policy.lag, gaps=gaps, weaker="R3")
    driver = WeakenedDriver(
        kernel_case(strong),
        policy,
        script.weak,
        *steps,
        shards=dice.choice([1, 1, 2, 3]),
        # Only logs go over to a weaker case, and ties of logs come when they are settled. What a
        # copy lacks comes in time only from one that does not wait for its own promise.
        settles=strong == "R1" or (not gaps and dice.random() < 0.5),
    )
    with patch.object(runs, "MERGE_ALL_UP_TO_ROWS", dice.choice([0, 0, 4, 4_096])):
        try:
            assert_merges(script, policy, sizes, one_leads=gaps, driver=driver)
        except Exception as wrong:
            raise AssertionError(f"check({strong!r}, {weak!r}, {seed!r})") from wrong
    # Copies that tell everything are never said to contradict each other.
    if not gaps:
        assert driver.diverged() == {}, f"check({strong!r}, {weak!r}, {seed!r})"


@pytest.mark.parametrize(("strong", "weak"), STEPS)
def test_copies_of_both_kinds_thrown_with_dice(strong: MergeCase, weak: MergeCase) -> None:
    for seed in range(60):
        check(strong, weak, seed)


@given(st.sampled_from(STEPS), st.integers(0, 1 << 40))
def test_copies_of_both_kinds_drawn(step: tuple[MergeCase, MergeCase], seed: int) -> None:
    check(*step, seed)


def begun(case: Case, weak: Case) -> WeakenedDriver:
    """A merge of 'strong', which a weaker copy 'weak' joins when it speaks."""
    driver = WeakenedDriver(case, MergePolicy(), frozenset({"weak"}), weak)
    driver.step([("attach", "strong", BEGINNING)])
    return driver


def says(name: str, *elements: Element) -> list[Action]:
    return [("element", name, element) for element in elements]


@pytest.mark.parametrize("weak", ["r3", "r4"])
def test_what_has_passed_in_order_is_below_the_floor(weak: Case) -> None:
    driver = begun("r2", weak)
    a, b, c = insert("a", start=2, end=9), insert("b", start=3, end=7), insert("c", start=3, end=8)
    assert driver.step(says("strong", a, b)) == [a, b]
    early = [
        insert("a", start=2, end=20),
        insert("b", start=3, end=5),
        adjust("b", start=3, end=5, new_end=7),
    ]
    assert driver.step(says("weak", *early, c)) == [c]
    assert driver.step(says("weak", adjust("a", start=2, end=20, new_end=9), stable(8))) == [
        stable(8)
    ]
    # The first one may be gone: what is new comes from the other, with its adjusts.
    d = insert("d", start=9, end=30)
    assert driver.step([("detach", "strong")]) == []
    assert driver.step(says("weak", d)) == [d]
    assert driver.step(says("weak", adjust("d", start=9, end=30, new_end=11), stable(12))) == [
        adjust("d", start=9, end=30, new_end=11),
        stable(12),
    ]
    assert driver.diverged() == {}
    assert driver.kernel.report(driver.traces[0])["case"] == weak


def test_no_two_starts_of_r0_are_equal_so_the_last_one_has_passed() -> None:
    driver = begun("r0", "r4")
    a = insert("a", start=2, end=9)
    assert driver.step(says("strong", a)) == [a]
    again = [
        insert("a", start=2, end=5),
        adjust("a", start=2, end=5, new_end=9),
        insert("b", start=2, end=3),
        adjust("b", start=2, end=3, new_end=2),
    ]
    assert driver.step(says("weak", *again, insert("c", start=3, end=4))) == [
        insert("c", start=3, end=4)
    ]


def test_ends_become_counts() -> None:
    driver = begun("r3", "r4")
    a = insert("a", start=2, end=9)
    assert driver.step(says("strong", a)) == [a]
    # Two events of one payload and start: impossible as r3.
    assert driver.step(says("weak", insert("a", start=2, end=5), insert("a", start=2, end=9))) == [
        insert("a", start=2, end=5)
    ]
    assert driver.step(says("weak", adjust("a", start=2, end=5, new_end=2), stable(6))) == [
        adjust("a", start=2, end=5, new_end=2),
        stable(6),
    ]
    assert driver.step(says("strong", stable(20))) == [stable(20)]
    assert driver.diverged() == {}


def test_a_case_is_never_made_stronger_and_other_sources_do_not_matter() -> None:
    driver = begun("r3", "r2")
    driver.step(says("weak", insert("a", start=2, end=9)))
    assert "case" not in driver.kernel.report(driver.traces[0])
    driver.commands = (Command(verb=WEAKEN, source="others", value=4),)
    driver.step(says("strong", insert("a", start=2, end=9)))
    assert "case" not in driver.kernel.report(driver.traces[0])


@pytest.mark.parametrize(("strong", "weak"), STEPS)
def test_it_resumes_by_the_weaker_case(strong: MergeCase, weak: MergeCase, tmp_path: Path) -> None:
    dice = Random(f"stored {strong} {weak}")
    for number in range(3):
        policy = draw_policy(strong, dice)
        script = make_script(strong, dice.randrange, lag=policy.lag, weaker=weak)
        first, other = (
            WeakenedDriver(kernel_case(strong), policy, script.weak, kernel_case(weak))
            for _ in range(2)
        )
        store = ShardStore(folder=Folder.at(str(tmp_path / f"{number}")))
        for batch, actions in enumerate(batches(script, any_sizes(dice, 4), one_leads=True)):
            before = store.load(batch)
            if before is not None:
                other.traces = list(store.traces(before))
            assert other.step(actions) == first.step(actions)
            store.save(batch, before, other.traces, sources={}, counters=None)
