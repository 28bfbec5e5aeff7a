"""A query that is killed in the middle of a change: the record decides, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.changed_queries import answers, instants
from tests.e2e.changed_query import CHANGED_AFTER
from tests.e2e.killed_changes import started
from tests.e2e.revised_queries import assert_legal
from tests.e2e.test_kill_driver import PATIENCE, kill, wait_for

from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.migrations import MigrationFolder
from anabranch.runtime.store.phases import HALT, MIGRATING, PHASES
from anabranch.testing.physical import PhysicalState, elements_of, violations

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("changed_query.py")
FIRST = CHANGED_AFTER + 1
"""The batch that the change begins with: the one with the command, after a batch per file."""

LAST = FIRST + 4
"""The batch that the old plan goes with: three files later the stable point has passed T."""

QUICK = [("clip", "migration switched"), ("replay", "migration seeded")]
EVERY = [
    (how, phase)
    for how in ("clip", "replay")
    for phase in (*MIGRATING, *PHASES)
    if (how, phase) not in QUICK and (how, phase) != ("replay", "migration finished")
]


@pytest.mark.parametrize(
    ("how", "phase"),
    [*QUICK, *(pytest.param(*each, marks=pytest.mark.faults) for each in EVERY)],
)
def test_a_change_survives_a_kill(tmp_path: Path, how: str, phase: str) -> None:
    survives_a_kill(tmp_path, how, phase)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("how", "phase"),
    [
        *(("clip", phase) for phase in (*MIGRATING[1:], "manifest written", "committed")),
        *(("replay", phase) for phase in ("migration seeded", "part written", "committed")),
    ],
)
def test_a_change_below_a_coalesce_survives_a_kill(tmp_path: Path, how: str, phase: str) -> None:
    survives_a_kill(tmp_path, how, phase, "coalesced")
    parts = LogFolder(str(tmp_path / "log")).parts()
    rows = [part for part in parts if isinstance(part, EventBatch)]
    there = PhysicalState.empty()
    assert list(violations((each for part in rows for each in elements_of(part)), there)) == []
    longest = LogicalStream.of_batches(rows).events()
    assert sorted(there.events.elements()) == sorted(longest)


def survives_a_kill(tmp_path: Path, how: str, phase: str, *words: str) -> None:
    said, halted = tmp_path / "said", tmp_path / "halted"
    batch = LAST if phase == "migration finished" else FIRST
    process = started(tmp_path, SCRIPT, how, *words, **{HALT: f"{phase}@{batch}={halted}"})
    wait_for(process, halted.exists, said)
    kill(process)
    process = started(tmp_path, SCRIPT, how, *words)
    assert process.wait(PATIENCE) == 0, said.read_text()[-3000:]
    log = LogFolder(str(tmp_path / "log"))
    (record,) = [
        each
        for each in MigrationFolder.of(f"{tmp_path}/log/_checkpoint").records()
        if each.state != "refused"
    ]
    assert record.state == "finished"
    assert record.at is not None
    parts = [part for part in log.parts() if isinstance(part, EventBatch)]
    found = LogicalStream.of_batches(parts)
    for instant in instants(int(parts[-1].stable), record.at):
        is_new = instant >= record.at
        wanted = answers(tmp_path, instant, 400 if is_new else 1500, 500 if is_new else 0)
        assert sorted(found.snapshot(instant).elements()) == wanted, instant
    assert_legal(tmp_path / "log")
