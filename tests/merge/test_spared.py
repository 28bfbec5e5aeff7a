"""A copy that was told what it may leave out: no contradiction, and nothing is kept for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.analysis.merge_case import Case
from anabranch.algebra.merge import MergePolicy
from anabranch.kernels.contract.command import Command
from anabranch.kernels.contract.kernel import Progress, SortedRun
from anabranch.kernels.merge.copies import Copies
from anabranch.kernels.merge.merge import COPIES
from anabranch.model.batch import no_rows
from anabranch.model.time import BEGINNING, Time
from anabranch.testing import Element, insert, stable
from anabranch.testing.physical import KitStable
from tests.merge.driver import Driver
from tests.merge.test_divergence import attached, says

Ends = dict[tuple[Any, int], list[int]]
KEYED_AND_NOT: list[Case] = ["r3", "r4"]


def spare(driver: Driver, name: str, until: int) -> None:
    """Hand in what the sender of feedback hands in."""
    command = Command(verb="spare", source="copies", copy=name, value=until)
    known = {driver.numbers[n]: (n, Time(driver.stables[n])) for n in driver.numbers}
    empty = no_rows(driver.kernel.prepared_schema())
    progress = Progress((BEGINNING,), known, (command,))
    driver.traces = [driver.kernel.advance(each, (empty,), progress)[0] for each in driver.traces]


def nodes(driver: Driver) -> int:
    return sum(len(run) for trace in driver.traces for run in trace.runs.get("nodes", ()))


@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_what_a_copy_was_told_to_leave_out_is_no_contradiction(case: Case) -> None:
    early: list[Element] = [insert("a", start=5, end=9), insert("b", start=6, end=30), stable(20)]
    for told in (False, True):
        driver = attached(case, "one", "two")
        driver.step(says("one", early))
        if told:
            spare(driver, "two", 20)
        # It lacks what ends before 20, and has what reaches it.
        driver.step(says("two", [insert("b", start=6, end=30), stable(25)]))
        assert driver.diverged() == ({} if told else {"two": 1})
        # What it says of later events is compared.
        driver.step(says("one", [insert("c", start=25, end=27), stable(40)]))
        driver.step(says("two", [insert("c", start=25, end=26), stable(40)]))
        assert driver.diverged() == ({"two": 1} if told else {"two": 2})


@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_nothing_is_kept_to_be_compared_with_who_may_leave_it_out(case: Case) -> None:
    rows: list[Element] = [insert(str(n), start=n, end=n + 1) for n in range(30)]
    kept = []
    for told in (False, True):
        driver = attached(case, "one", "two")
        for at in range(0, 30, 3):
            driver.step(says("one", [*rows[at : at + 3], stable(at + 2)]))
            if told:
                spare(driver, "two", at + 2)
        kept.append(nodes(driver))
    assert kept[1] < kept[0] / 3


@pytest.mark.parametrize("case", KEYED_AND_NOT)
@given(data=st.data())
def test_the_merge_knows_since_when_that_holds_which_reaches_its_stable_point(
    case: Case, data: st.DataObject
) -> None:
    driver = Driver(case, MergePolicy())
    driver.step([("attach", "one", BEGINNING), ("attach", "two", BEGINNING)])
    state: Ends = {}
    at = 0
    for number in range(data.draw(st.integers(1, 6))):
        events: list[Element] = []
        for each in range(data.draw(st.integers(0, 3))):
            start = at + data.draw(st.integers(0, 4))
            end = start + data.draw(st.integers(1, 9))
            events.append(insert(f"{number} {each}", start=start, end=end))
        at += data.draw(st.integers(0, 5))
        name = data.draw(st.sampled_from(["one", "two"]))
        said = driver.step(says(name, [*events, stable(at)]))
        for element in said:
            _take(state, element)
    reached = int(driver.stable)
    if reached == BEGINNING:
        return
    live = [start for (_, start), ends in state.items() for end in ends if end >= reached]
    found = [Copies.of(trace.runs[COPIES]).reach for trace in driver.traces]
    assert found == [min([reached, *(start for start in live if start < reached)])]


def _take(state: Ends, element: Element) -> None:
    if isinstance(element, KitStable):
        return
    ends = state.setdefault((element.payload, element.start), [])
    if element.end > element.start:
        ends.remove(element.end)
    if element.new_end > element.start:
        ends.append(element.new_end)


def test_a_state_of_an_earlier_version_does_not_know_since_when() -> None:
    driver = attached("r3", "one")
    driver.step(says("one", [insert("a", start=3, end=9), stable(5)]))
    (run,) = driver.traces[0].runs[COPIES]
    assert Copies.of([run]).reach == 3
    before = SortedRun(run.rows.drop_columns(["reach"]))
    assert Copies.of([before]).reach == BEGINNING
