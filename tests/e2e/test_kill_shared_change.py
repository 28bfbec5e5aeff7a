"""Queries that change together are killed at every step: one record decides for all of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.e2e.changed_group import CHANGED_AFTER, OUTS, wanted
from tests.e2e.killed_changes import (
    Moments,
    assert_answers,
    assert_nothing_is_left,
    every_step,
    run_killed,
    the_change,
)

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("changed_group.py")
FIRST = CHANGED_AFTER + 1
"""The batch that the change begins with: the one with the command, after a batch per file."""

LAST = FIRST + 4
"""The batch that the old plans go with: three files later the stable points have passed T."""

QUICK: Moments = [("migration seeded", FIRST), ("migration switched", FIRST + 1)]
EVERY: Moments = every_step(
    FIRST, ["migration planned", "migration seeded"], ["migration switched"]
)


@pytest.mark.parametrize(
    ("how", "moments", "words"),
    [
        pytest.param("replay", QUICK, (), id="quick"),
        pytest.param("clip", EVERY, (), id="by clip", marks=pytest.mark.faults),
        pytest.param(
            "clip", [("migration finished", LAST)], (), id="at the end", marks=pytest.mark.faults
        ),
        pytest.param("replay", EVERY, (), id="by replay", marks=pytest.mark.faults),
        pytest.param("clip", EVERY, ("coalesced",), id="joined at T", marks=pytest.mark.faults),
    ],
)
def test_queries_that_change_together_survive_kills(
    tmp_path: Path, how: str, moments: Moments, words: tuple[str, ...]
) -> None:
    run_killed(tmp_path, SCRIPT, how, *words, moments=moments)
    home = tmp_path / "log" / "_checkpoint"
    record = the_change(home)
    assert (record.how, record.outputs) == (how, (0, 1))
    at = record.at
    assert at is not None
    for name in OUTS:
        answers = partial(answered, tmp_path, name, at)
        assert_answers(tmp_path / name, answers, at)
    assert_nothing_is_left(home)


def answered(folder: Path, name: str, at: int, instant: int) -> list[tuple[object, ...]]:
    return wanted(folder, name, instant, is_new=instant >= at)
