"""Case r4 against multisets that are counted one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.merge import MergePolicy
from anabranch.kernels.trace import runs
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.testing import (
    Action,
    Element,
    KitStable,
    MergeScript,
    Move,
    adjust,
    insert,
    make_script,
    merge_scripts,
    stable,
)
from anabranch.testing.replica_view import Key
from tests.merge.driver import Driver, batches
from tests.merge.histories import any_sizes
from tests.merge.test_divergence import attached, says


@dataclass
class Multiset:
    """The events of an input or of the output: how many of each end, by payload and start."""

    ends: dict[Key, Counter[int]] = field(default_factory=dict)
    stable: int = BEGINNING

    def take(self, element: Element) -> None:
        if isinstance(element, KitStable):
            self.stable = max(self.stable, element.time)
            return
        held = self.ends.setdefault((element.payload, element.start), Counter())
        if element.end > element.start:
            assert held[element.end] > 0, element
            held[element.end] -= 1
        if element.new_end > element.start:
            held[element.new_end] += 1

    def final(self, key: Key, time: int) -> Counter[int]:
        """What is settled at a time: ends before it, and how many go on."""
        return Counter(min(end, time) for end in self.ends.get(key, Counter()).elements())

    def total(self, key: Key) -> int:
        return self.ends.get(key, Counter()).total()


def assert_counts(script: MergeScript, size: int, seed: int) -> None:
    """What r4 says of the multisets of a batch (Chandramouli et al., IV), for whole copies.

    What is not settled is there as often as the input has it that has most of it, or more if that
    took some back; what is settled is there just as the leading input has it.
    """
    driver = Driver("r4", MergePolicy())
    inputs: dict[str, Multiset] = {}
    output = Multiset()
    for batch in batches(script, any_sizes(Random(seed), size)):
        for action in batch:
            if action[0] == "attach":
                inputs[action[1]] = Multiset()
            elif action[0] == "detach":
                inputs.pop(action[1], None)
            elif action[1] in inputs:
                inputs[action[1]].take(action[2])
        for element in driver.step(batch):
            output.take(element)
        leading = [each for each in inputs.values() if each.stable >= output.stable]
        for key in {key for each in (*inputs.values(), output) for key in each.ends}:
            if key[1] >= output.stable:
                assert output.total(key) >= max(
                    it.total(key) for it in (Multiset(), *inputs.values())
                )
            elif leading:
                found = output.final(key, output.stable)
                assert found in [it.final(key, output.stable) for it in leading], (key, batch)


def from_the_beginning(script: MergeScript) -> MergeScript:
    """Late copies tell less; here all of them tell everything."""
    late = {
        action[1] for action in script.actions if action[0] == "attach" and action[2] > BEGINNING
    }
    actions = tuple(action for action in script.actions if action[1] not in late)
    return MergeScript(script.case, script.history, actions)


@given(merge_scripts("R4", max_inputs=3, gaps=False), st.integers(1, 6), st.integers(0, 99))
def test_multisets_are_counted_right(script: MergeScript, size: int, seed: int) -> None:
    assert_counts(from_the_beginning(script), size, seed)


def test_many_multisets_thrown_with_dice() -> None:
    dice = Random("multisets")
    with patch.object(runs, "MERGE_ALL_UP_TO_ROWS", 0):
        for _ in range(12):
            script = make_script("R4", dice.randrange, gaps=False)
            assert_counts(from_the_beginning(script), 1 + dice.randrange(6), dice.randrange(99))


TWO: list[Element] = [insert("a", start=5, end=9), insert("a", start=5, end=9)]


@pytest.mark.parametrize("small", [0, 4_096])
def test_the_leader_decides_how_many_there_are(small: int) -> None:
    with patch.object(runs, "MERGE_ALL_UP_TO_ROWS", small):
        driver = attached("r4", "one", "two")
        assert driver.step(says("one", TWO)) == TWO
        assert driver.step(says("two", TWO[:1])) == []
        # One too many, and of those left the ends are as the leader has them.
        said = driver.step(says("two", [adjust("a", start=5, end=9, new_end=7), stable(6)]))
        assert said == [adjust("a", start=5, end=9, new_end=5), stable(6)]
        assert driver.step(says("two", [stable(8)])) == [
            adjust("a", start=5, end=9, new_end=7),
            stable(8),
        ]


def test_ends_are_corrected_one_by_one() -> None:
    driver = attached("r4", "one", "two")
    driver.step(says("one", [*TWO, insert("a", start=5)]))
    theirs: list[Element] = [insert("a", start=5, end=end) for end in (7, 7, 12)]
    said = driver.step([*says("two", theirs), *says("two", [stable(10)])])
    output = Multiset()
    for element in (*TWO, insert("a", start=5), *said):
        output.take(element)
    ((_, ends),) = output.ends.items()
    # The end that is not settled yet stays as it is.
    assert +ends == Counter({7: 2, FOREVER: 1})
    assert said[-1] == stable(10)
    assert len(said) == 3


def test_what_is_taken_back_by_all_goes_with_the_next_promise() -> None:
    driver = attached("r4", "one", "two")
    driver.step([*says("one", TWO), *says("two", TWO)])
    back: Move = adjust("a", start=5, end=9, new_end=5)
    actions: list[Action] = [*says("one", [back, back]), *says("two", [back, back])]
    assert driver.step(actions) == []
    assert driver.step(says("one", [stable(6)])) == [back, back, stable(6)]


@pytest.mark.parametrize("adjusts", ["lazy", "eager", "leading"])
def test_who_came_late_ends_what_goes_on_without_knowing_what_has_ended(adjusts: str) -> None:
    driver = Driver("r4", MergePolicy.of(adjusts=adjusts))
    driver.step([("attach", "one", BEGINNING)])
    begun: list[Element] = [insert("a", start=1, end=4), insert("a", start=1), stable(5)]
    assert driver.step(says("one", begun)) == begun
    driver.step([("attach", "two", 5)])
    said = driver.step(says("two", [insert("a", start=1, end=7), stable(FOREVER)]))
    assert said == [adjust("a", start=1, end=FOREVER, new_end=7), stable(FOREVER)]
