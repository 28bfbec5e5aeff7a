"""A short campaign; `make test-faults` is the long one."""

from __future__ import annotations

import pytest

from tests.faults.campaign import campaign

pytestmark = [pytest.mark.spark, pytest.mark.faults]


def test_queries_survive_a_short_campaign() -> None:
    *lines, total = campaign(2026, seconds=60, scenarios=2)
    assert total["losses"] == 0, lines
    assert total["faults"] >= 2, lines
