"""A query on Spark goes on with another number of shards, and nobody notices."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.e2e.rescaled_query import BATCHES, query, write_input
from tests.e2e.test_kill_driver import kill, wait_for
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.engine import Engine
from anabranch.runtime.query.checkpoint import read_facts
from anabranch.runtime.query.state_view import view_state
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.phases import HALT, STARTING

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("rescaled_query.py")


def elements(log: Path) -> Counter[tuple[Any, ...]]:
    """Everything that is committed, with its batch."""
    return Counter(
        (entry.batch, *row.values())
        for entry in LogFolder(str(log)).entries()
        for file in entry.files
        for row in pq.read_table(log / file.name).to_pylist()
    )


def go_on(engine: Engine, shards: int | None, folder: Path, batches: int) -> None:
    """So many batches more, with a number of shards."""
    with Engine(engine.spark, shards=shards) as other:
        write_input(folder / "in", batches)
        query(other, folder / "in").start(
            folder / "log", checkpoint=folder / "checkpoint", available_now=True
        ).await_end()


@pytest.fixture(scope="module")
def expected(
    first_engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Counter[tuple[Any, ...]]:
    """What a query gives that has three shards all the time."""
    folder = tmp_path_factory.mktemp("steady")
    go_on(first_engine, 3, folder, BATCHES)
    found = elements(folder / "log")
    assert len(found) > 100
    return found


def test_shards_are_added_and_taken_away(
    engine: Engine,
    expected: Counter[tuple[Any, ...]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "anabranch")
    checkpoint = tmp_path / "checkpoint"
    for shards, has, batches in ((2, 2, 2), (5, 5, 4), (None, 5, 5), (3, 3, 7), (1, 1, BATCHES)):
        go_on(engine, shards, tmp_path, batches)
        facts, state = view_state(str(checkpoint), check=True)
        assert facts.shards == has
        assert {each.shard for each in state} == set(range(has))
        assert {each.batch for each in state} == {batches - 1}
    assert elements(tmp_path / "log") == expected
    said = [record.getMessage() for record in caplog.records]
    assert [line.partition(":")[0] for line in said] == [
        "from 2 to 5 shards",
        "from 5 to 3 shards",
        "from 3 to 1 shards",
    ]
    # What is not needed any more is gone.
    kept = {path.name for path in (checkpoint / "state").iterdir()}
    left = read_facts(str(checkpoint))
    assert left is not None
    assert kept == set(left.folders.values())
    shown = CliRunner().invoke(app, ["state", str(checkpoint)])
    assert "1 shards" in shown.output or "1 shards" in shown.stderr


def start(folder: Path, shards: int, batches: int, **environment: str) -> subprocess.Popen[bytes]:
    with (folder / "said").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), str(shards), str(batches)],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
            start_new_session=True,
        )


def test_a_change_that_is_killed_has_not_happened_or_has(
    engine: Engine, expected: Counter[tuple[Any, ...]], tmp_path: Path
) -> None:
    go_on(engine, 2, tmp_path, 3)
    checkpoint, said = tmp_path / "checkpoint", tmp_path / "said"
    numbers: list[int] = []
    for phase in STARTING:
        halted = tmp_path / f"halted-{len(numbers)}"
        process = start(tmp_path, 5, 5, **{HALT: f"{phase}@3={halted}"})
        wait_for(process, halted.exists, said)
        kill(process)
        facts, state = view_state(str(checkpoint), check=True)
        numbers.append(facts.shards)
        assert {each.shard for each in state} == set(range(facts.shards))
        # Old and new are both there.
        assert len(list((checkpoint / "state").iterdir())) == 2 * len(facts.folders)
    assert numbers == [2, 5]
    go_on(engine, None, tmp_path, 6)
    assert len(list((checkpoint / "state").iterdir())) == len(facts.folders)
    go_on(engine, 4, tmp_path, BATCHES)
    assert elements(tmp_path / "log") == expected


def test_the_command_line_changes_the_number(tmp_path: Path) -> None:
    (tmp_path / "bids").mkdir()
    script = (
        f"CREATE STREAM Bid (k INT, v INT) SOURCE '{tmp_path}/bids';\n"
        "SELECT DISTINCT k, COUNT(DISTINCT v) AS n FROM Bid GROUP BY k;\n"
    )
    (tmp_path / "q.sql").write_text(script)
    for number, shards in enumerate((2, 3)):
        rows = [f'{{"insert": {{"k": {k}, "v": {number}}}, "start": {number}}}' for k in range(9)]
        rows.append(f'{{"stable": {number + 1}}}')
        (tmp_path / "bids" / f"{number}.jsonl").write_text("\n".join(rows) + "\n")
        words = ["run", "q.sql", "--to", "out", "--shards", str(shards)]
        done = subprocess.run(
            [sys.executable, "-m", "anabranch.cli.app", *words],
            cwd=tmp_path,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
    assert "from 2 to 3 shards: " in done.stderr
    facts = read_facts(str(tmp_path / "out" / "_checkpoint"))
    assert facts is not None
    assert facts.shards == 3
    log = LogFolder(str(tmp_path / "out"))
    assert sum(file.rows for entry in log.entries() for file in entry.files) == 9 + 18
