"""A process is killed while queries join and leave: the record decides which ones there are.

A quick one, by commands, is in `test_group_commands`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.changed_queries import answers
from tests.e2e.joined_query import JOINS_AFTER, LEAVES_AFTER
from tests.e2e.killed_changes import (
    Moments,
    assert_answers,
    assert_nothing_is_left,
    every_step,
    run_killed,
)

from anabranch.model.time import BEGINNING
from anabranch.runtime.store.migrations import MigrationFolder

pytestmark = [pytest.mark.spark, pytest.mark.faults]

SCRIPT = Path(__file__).with_name("joined_query.py")
JOINS = JOINS_AFTER + 1
"""The batch that a query joins with: the one with the command, after a batch per file."""

UNTIL_LEAVING = LEAVES_AFTER - JOINS_AFTER + 1
"""So many batches later the other one leaves: files, and the command."""


EVERY_JOIN = every_step(JOINS, ["migration planned", "migration seeded"], ["migration switched"])
EVERY: Moments = [
    *EVERY_JOIN,
    *every_step(EVERY_JOIN[-1][1] + UNTIL_LEAVING, ["migration seeded"], ["migration switched"]),
]


@pytest.mark.parametrize(
    ("how", "moments"),
    [
        pytest.param("clip", EVERY, id="by clip, every step"),
        pytest.param("replay", EVERY_JOIN, id="by replay, every step"),
    ],
)
def test_queries_that_join_and_leave_survive_kills(
    tmp_path: Path, how: str, moments: Moments
) -> None:
    run_killed(tmp_path, SCRIPT, how, moments=moments)
    home = tmp_path / "log" / "_checkpoint"
    records = MigrationFolder.of(str(home)).records()
    joined, left = [each for each in records if each.state != "refused"]
    assert (joined.verb, joined.state, joined.how) == ("add", "finished", how)
    assert (left.verb, left.state) == ("drop", "finished")
    assert joined.at is not None
    assert (joined.at == BEGINNING) == (how == "replay")
    at = max(joined.at, 0)
    assert_answers(tmp_path / "log", lambda t: answers(tmp_path, t, 1500), at)
    assert_answers(
        tmp_path / "new", lambda t: answers(tmp_path, t, 400, 500) if t >= at else [], at
    )
    assert_nothing_is_left(home)
