from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow.parquet as pq
import pytest
from tests.e2e.two_stage_query import FILES, query, write_input

from anabranch.engine import Engine
from anabranch.model.time import BEGINNING
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.phases import HALT, PHASES
from anabranch.runtime.thresholds import VARIABLE

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("two_stage_query.py")
PATIENCE = 180.0
RESTING = '{"runtime.workers.resting_shards.RESTING_FROM_SHARDS": 1}'


Contents: TypeAlias = list[tuple[int, int, list[list[dict[str, Any]]]]]


def contents(log: Path) -> Contents:
    """Batch, stable point and elements of everything that is committed."""
    return [
        (
            entry.batch,
            entry.stable,
            [pq.read_table(log / file.name).to_pylist() for file in entry.files],
        )
        for entry in LogFolder(str(log)).entries()
    ]


@pytest.fixture(scope="module")
def undisturbed(
    first_engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Contents]:
    """The input, and what a run that nobody disturbs makes of it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write_input(folder / "in")
    query(first_engine, folder / "in").start(folder / "log", available_now=True).await_end()
    found = contents(folder / "log")
    assert len(found) == FILES
    return folder / "in", found


def start(folder: Path, **environment: str) -> subprocess.Popen[bytes]:
    log = (folder / "said").open("ab")
    try:
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder)],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
            start_new_session=True,
        )
    finally:
        log.close()


def wait_for(process: subprocess.Popen[bytes], condition: Callable[[], bool], said: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, f"ended too early: {said.read_text()[-3000:]}"
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.002)


def kill(process: subprocess.Popen[bytes]) -> None:
    """No warning, no clean-up: Python and Java at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)


def moments(any_time: bool) -> Iterator[tuple[str, int]]:
    """Every phase of a batch once, each in a later batch; in between at any time, if wanted."""
    for number, phase in enumerate(PHASES):
        yield phase, 2 + 3 * number
        if any_time and number % 2:
            yield "any time", 3 + 3 * number


@pytest.mark.parametrize("any_time", [False, pytest.param(True, marks=pytest.mark.faults)])
def test_a_killed_query_goes_on_as_if_nothing_had_happened(
    undisturbed: tuple[Path, Contents], tmp_path: Path, any_time: bool
) -> None:
    rows, expected = undisturbed
    (tmp_path / "in").symlink_to(rows)
    said, log = tmp_path / "said", tmp_path / "log" / "_log"
    chance = random.Random(11)
    kills = 0
    for phase, batch in moments(any_time):
        # In every other life, shards without rows rest, and an index says which version they have.
        resting = {VARIABLE: RESTING} if kills % 2 else {}
        if phase == "any time":
            process = start(tmp_path, **resting)
            wait_for(process, lambda at=batch: (log / f"{at}.json").exists(), said)  # type: ignore[misc]
            # Anywhere in the batches that follow.
            time.sleep(chance.uniform(0.0, 0.4))
        else:
            halted = tmp_path / f"halted-{kills}"
            process = start(tmp_path, **{HALT: f"{phase}@{batch}={halted}"}, **resting)
            wait_for(process, halted.exists, said)
        if process.poll() is None:
            kill(process)
            kills += 1
    assert kills >= (10 if any_time else len(PHASES))
    process = start(tmp_path)
    assert process.wait(PATIENCE) == 0, said.read_text()[-3000:]
    found = contents(tmp_path / "log")
    assert [(batch, stable) for batch, stable, _ in found] == [
        (batch, stable) for batch, stable, _ in expected
    ]
    assert found == expected
    stables = [stable for _, stable, _ in found]
    assert stables == sorted(stables)
    assert stables[-1] > BEGINNING
