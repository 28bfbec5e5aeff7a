"""Processes that are killed with -9 again and again while their queries change."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tests.e2e.changed_queries import instants
from tests.e2e.revised_queries import assert_legal
from tests.e2e.test_kill_driver import PATIENCE, kill, wait_for

from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.migrations import MigrationFolder, MigrationRecord
from anabranch.runtime.store.phases import HALT, PHASES
from anabranch.runtime.store.query_record import read_query_record

ROOT = Path(__file__).parents[2]

Moments: TypeAlias = Sequence[tuple[str, int]]
"""Steps, and in which batch: one process after the other gets there, and is killed."""

Answers: TypeAlias = Callable[[int], list[tuple[Any, ...]]]
"""What the snapshot at an instant must be."""


def started(folder: Path, script: Path, *words: str, **environment: str) -> subprocess.Popen[bytes]:
    """A script as a process of its own, with its Java in one group."""
    with (folder / "said").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(script), str(folder), *words],
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
                "PYSPARK_PYTHON": sys.executable,
                **environment,
            },
            start_new_session=True,
        )


def run_killed(folder: Path, script: Path, *words: str, moments: Moments) -> None:
    """Start a script, kill it at each of these moments and start it again, then let it end."""
    said = folder / "said"
    for number, (step, batch) in enumerate(moments):
        halted = folder / f"halted-{number}"
        process = started(folder, script, *words, **{HALT: f"{step}@{batch}={halted}"})
        # A step that is never reached ends the test here: the script has ended too early.
        wait_for(process, halted.exists, said)
        kill(process)
    process = started(folder, script, *words)
    assert process.wait(PATIENCE) == 0, said.read_text()[-3000:]


def every_step(first: int, before: Sequence[str], behind: Sequence[str] = ()) -> Moments:
    """A chain of kills: at every step of a change, then at every step of the batch that makes it.

    Args:
        first: The batch that the change would begin with.
        before: Steps before the record decides: the change is asked for again, one batch later,
            for the batch that was interrupted stays what it was.
        behind: Steps behind that; then come those of the batch, which is repeated.
    """
    last = first + len(before)
    return [
        *((step, first + number) for number, step in enumerate(before)),
        # The rows of a batch are planned once, and the rest is done again each time.
        *((step, last) for step in (*behind, *PHASES[1:])),
    ]


def the_change(home: Path) -> MigrationRecord:
    """The one change of a checkpoint that was not refused, and that is over."""
    records = MigrationFolder.of(str(home)).records()
    (record,) = [each for each in records if each.state != "refused"]
    assert record.state == "finished"
    return record


def assert_answers(log: Path, answers: Answers, *of_interest: int) -> None:
    """A log is a legal stream, and its snapshots are what they must be."""
    parts = [part for part in LogFolder(str(log)).parts() if isinstance(part, EventBatch)]
    found = LogicalStream.of_batches(parts)
    for instant in instants(int(parts[-1].stable), *of_interest):
        assert sorted(found.snapshot(instant).elements()) == answers(instant), (log.name, instant)
    assert_legal(log)


def assert_nothing_is_left(home: Path) -> None:
    """A checkpoint has the state of the stages of its plan, and of no others."""
    stored = read_query_record(str(home))
    assert stored is not None
    there = {each.name for each in (home / "state").iterdir()}
    assert there <= set(stored.folders().values())
