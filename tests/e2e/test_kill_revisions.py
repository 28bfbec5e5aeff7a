"""A query that is killed in the middle of a revision: each of them is in the output once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.e2e.revised_queries import assert_legal
from tests.e2e.revised_query import query, write_input
from tests.e2e.test_kill_driver import PATIENCE, kill, wait_for

from anabranch.engine import Engine
from anabranch.model.logical import LogicalStream
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.phases import HALT, PHASES, REVISING
from anabranch.testing import meaning

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("revised_query.py")
WAYS = ("direct", "swap")
QUICK = [(way, f"{phase}@1") for way in WAYS for phase in ("revision computed",)]
QUICK += [("swap", "revision committed@1")]
ALL = [(way, f"{phase}@{number}") for way in WAYS for phase in REVISING for number in (1, 3)]
# The first late rows come in batch 2; the batches behind it bring the revisions.
ALL += [(way, f"{phase}@{batch}") for way in WAYS for phase in PHASES for batch in (2, 3, 4)]


def start(folder: Path, way: str, **environment: str) -> subprocess.Popen[bytes]:
    with (folder / "said").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), way],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
            start_new_session=True,
        )


@pytest.mark.parametrize(
    ("way", "point"),
    [
        *QUICK,
        *(pytest.param(*each, marks=pytest.mark.faults) for each in ALL if each not in QUICK),
    ],
)
def test_a_killed_query_emits_every_revision_once(tmp_path: Path, way: str, point: str) -> None:
    write_input(tmp_path / "in")
    must_halt = (way, point) in QUICK
    said, halted = tmp_path / "said", tmp_path / "halted"
    process = start(tmp_path, way, **{HALT: f"{point}={halted}"})
    # Corrections that are swapped together pass some of their steps as one.
    wait_for(process, lambda: halted.exists() or process.poll() == 0, said)
    if process.poll() is None:
        kill(process)
    assert halted.exists() or not must_halt
    process = start(tmp_path, way)
    assert process.wait(PATIENCE) == 0, said.read_text()[-3000:]
    log = tmp_path / "log"
    assert_legal(log)
    assert LogFolder(str(log)).revisions()
    rows = [
        (tuple(row.values()), row["t"], row["t"] + 1)
        for file in sorted((tmp_path / "in").iterdir())
        for row in pq.read_table(file).to_pylist()
    ]
    wanted = meaning(query(Engine(), tmp_path / "in", way).node, {"rows": LogicalStream.of(rows)})
    found = LogicalStream.of_batches(LogFolder(str(log)).read())
    assert not found.difference(wanted, LogFolder(str(log)).stable())
