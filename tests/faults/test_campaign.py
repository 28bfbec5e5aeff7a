"""A short campaign; `make test-faults` is the long one."""

from __future__ import annotations

import pytest

from tests.faults.campaign import FAULTS, campaign, run_scenario
from tests.faults.scenario import Scenario

pytestmark = [pytest.mark.spark, pytest.mark.faults]


def test_queries_survive_a_short_campaign() -> None:
    *lines, total = campaign(2026, seconds=60, scenarios=2)
    assert total["losses"] == 0, lines
    assert total["faults"] >= 2, lines
    assert total["ran"]["tasks"] > 0, lines


def test_some_scenarios_have_plain_jobs_and_some_have_not() -> None:
    assert {Scenario.drawn(seed).plain_jobs for seed in range(20)} == {True, False}


def test_two_queries_that_change_together_survive_faults() -> None:
    line = run_scenario(2045, FAULTS, None)
    assert line["queries"] == 2
    assert line["recovered"], line
