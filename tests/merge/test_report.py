"""What a merge tells people about its copies."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from anabranch.algebra.analysis.merge_case import Case
from anabranch.algebra.merge import Divergence, MergePolicy
from anabranch.algebra.source import Source
from anabranch.errors import StreamError
from anabranch.kernels.merge.merge import MergeKernel
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.testing import insert, stable
from tests.merge.driver import Driver
from tests.merge.test_divergence import KEYED_AND_NOT, LONG, SHORT, attached, says


def test_before_anything_happened_nobody_leads() -> None:
    driver = Driver("r3", MergePolicy())
    assert driver.kernel.report(driver.traces[0]) == {
        "leader": None,
        "stable": BEGINNING,
        "copies": [],
        "divergent": [],
    }


@pytest.mark.parametrize("divergence", ["warn", "quarantine"])
@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_the_report_says_who_leads_who_lags_and_who_contradicts(
    case: Case, divergence: Divergence
) -> None:
    driver = attached(case, "one", "two", "three", divergence=divergence)
    driver.step(says("one", LONG))
    driver.step([*says("two", SHORT), *says("three", [*LONG[:2], stable(8)])])
    about = {"one": ("joined", 20, 0, 2, 0, 0), "three": ("joined", 8, 12, 2, 2, 0)}
    # What came when it was over did not matter; that of a copy that is left out never did.
    warned = divergence == "warn"
    about["two"] = ("joined" if warned else "quarantined", 20, 0, 2, 2 if warned else 0, 1)
    names = ("status", "stable", "lag", "rows", "ignored", "diverged")
    assert driver.kernel.report(driver.traces[0]) == {
        "leader": "one",
        "stable": 20,
        # Nothing holds at 20 any more.
        "reach": 20,
        "copies": [
            {"name": name, **dict(zip(names, about[name]))} for name in ("one", "two", "three")
        ],
        "divergent": [
            {"copy": "two", "event": "('a') from 5: settled until 9, but 'two' says until 7"}
        ],
    }
    # It is about the last step.
    driver.step(says("one", [stable(25)]))
    assert driver.kernel.report(driver.traces[0])["divergent"] == []


def test_late_elements_are_counted_and_a_silent_copy_has_no_lag() -> None:
    driver = attached("r3", "one", "two", "three")
    driver.step(says("one", LONG))
    driver.step(says("one", LONG[:1]))
    driver.step([("detach", "two")])
    one, two, three = driver.kernel.report(driver.traces[0])["copies"]
    assert (one["rows"], one["ignored"]) == (3, 1)
    assert two["status"] == "left"
    assert (three["stable"], three["lag"]) == (BEGINNING, None)


@pytest.mark.parametrize("case", ["r0", "r1", "r2", "r3", "r4"])
def test_when_all_is_over_the_report_is_still_there(case: Case) -> None:
    driver = attached(case, "one", "two")
    driver.step(says("one", [*LONG[:2], stable(FOREVER)]))
    driver.step(says("two", [stable(FOREVER)]))
    driver.step([])
    report = driver.kernel.report(driver.traces[0])
    assert (report["leader"], report["stable"]) == ("one", FOREVER)
    assert [each["lag"] for each in report["copies"]] == [0, 0]
    assert driver.traces[0].rows() == 2


def test_of_many_contradictions_a_few_are_told_and_all_are_counted() -> None:
    driver = attached("r3", "one", "two", "three")
    many = [insert(f"p{number:02}", start=5, end=9) for number in range(30)]
    driver.step(says("one", [*many, stable(20)]))
    driver.step([*says("two", [stable(20)]), *says("three", [*many[1:], stable(20)])])
    report = driver.kernel.report(driver.traces[0])
    assert [each["diverged"] for each in report["copies"]] == [0, 30, 1]
    assert {each["copy"] for each in report["divergent"]} == {"two", "three"}
    assert 5 <= len(report["divergent"]) <= 6
    for each in report["divergent"]:
        assert each["event"].endswith(f"settled until 9, but '{each['copy']}' says there is none")
        assert each["copy"] == "two" or each["event"].startswith("('p00') from 5: ")


@pytest.mark.parametrize("case", KEYED_AND_NOT)
def test_times_of_a_clock_are_told_as_such(case: Case) -> None:
    for divergence in ("warn", "fail"):
        driver = attached(case, "one", "two", divergence=divergence)
        (source,) = driver.kernel.node.inputs
        assert isinstance(source, Source)
        clocked = replace(driver.kernel.node, inputs=(replace(source, timestamps=True),))
        driver.kernel = MergeKernel(clocked)
        driver.step(says("one", LONG))
        event = (
            "('a') from 1970-01-01T00:00:00.000005: settled until 1970-01-01T00:00:00.000009, "
            "but 'two' says until 1970-01-01T00:00:00.000007"
        )
        if divergence == "fail":
            with pytest.raises(StreamError, match=re.escape(event)):
                driver.step(says("two", SHORT))
        else:
            driver.step(says("two", SHORT))
            assert driver.kernel.report(driver.traces[0])["divergent"] == [
                {"copy": "two", "event": event}
            ]
