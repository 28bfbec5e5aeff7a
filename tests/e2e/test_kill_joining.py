"""A process that is killed while a query joins: the record decides which queries there are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.changed_queries import answers, instants
from tests.e2e.joined_query import JOINS_AFTER
from tests.e2e.revised_queries import assert_legal
from tests.e2e.test_kill_driver import PATIENCE, kill, wait_for

from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.migrations import MigrationFolder
from anabranch.runtime.store.phases import HALT

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("joined_query.py")
ROOT = Path(__file__).parents[2]
FIRST = JOINS_AFTER + 1


def start(folder: Path, how: str, **environment: str) -> subprocess.Popen[bytes]:
    with (folder / "said").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), how],
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


@pytest.mark.faults
@pytest.mark.parametrize("how", ["clip", "replay"])
@pytest.mark.parametrize("phase", ["migration seeded", "migration switched", "collected"])
def test_a_query_that_joins_survives_a_kill(tmp_path: Path, how: str, phase: str) -> None:
    said, halted = tmp_path / "said", tmp_path / "halted"
    process = start(tmp_path, how, **{HALT: f"{phase}@{FIRST}={halted}"})
    wait_for(process, halted.exists, said)
    kill(process)
    process = start(tmp_path, how)
    assert process.wait(PATIENCE) == 0, said.read_text()[-3000:]
    (record,) = [
        each
        for each in MigrationFolder.of(f"{tmp_path}/log/_checkpoint").records()
        if each.state != "refused"
    ]
    assert record.state == "finished"
    assert record.at is not None
    at = max(record.at, 0)
    assert (record.at == BEGINNING) == (how == "replay")
    joined = "again" if (tmp_path / "again").exists() else "new"
    for folder, size, least, since in (("log", 1500, 0, 0), (joined, 400, 500, at)):
        log = LogFolder(str(tmp_path / folder))
        parts = [part for part in log.parts() if isinstance(part, EventBatch)]
        found = LogicalStream.of_batches(parts)
        for instant in instants(int(parts[-1].stable), at):
            wanted = answers(tmp_path, instant, size, least) if instant >= since else []
            assert sorted(found.snapshot(instant).elements()) == wanted, (folder, instant)
        assert_legal(tmp_path / folder)
