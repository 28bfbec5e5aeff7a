"""A query is killed while a user operator gets another version: its state goes on, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.changed_operator import CHANGED_AFTER
from tests.e2e.killed_changes import (
    Moments,
    assert_answers,
    assert_nothing_is_left,
    every_step,
    run_killed,
    the_change,
)
from tests.e2e.module_versions import told_of_windows

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("changed_operator.py")
FIRST = CHANGED_AFTER + 1
"""The batch that the change begins with: the one with the command, after a batch per file."""

QUICK: Moments = [("migration seeded", FIRST)]
EVERY: Moments = every_step(
    FIRST, ["migration planned", "migration seeded"], ["migration switched"]
)


@pytest.mark.parametrize(
    "moments",
    [
        pytest.param(QUICK, id="quick"),
        pytest.param(EVERY, id="every step", marks=pytest.mark.faults),
    ],
)
def test_another_version_of_an_operator_survives_kills(tmp_path: Path, moments: Moments) -> None:
    run_killed(tmp_path, SCRIPT, moments=moments)
    record = the_change(tmp_path / "log" / "_checkpoint")
    assert record.how == "state"
    at = record.at
    assert at is not None
    assert_answers(
        tmp_path / "log", lambda t: told_of_windows(tmp_path, t, mean=t >= at), *range(at - 50, at)
    )
    assert_nothing_is_left(tmp_path / "log" / "_checkpoint")
