from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.e2e.two_stage_query import query, write_input

from anabranch.engine import Engine
from anabranch.model.logical import LogicalStream
from anabranch.runtime.sources.files.log_folder import LogFolder

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("two_stage_query.py")
PATIENCE = 240.0


def processes() -> dict[int, tuple[int, str]]:
    """All processes: parent and command line."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(folder.name)] = (parent, command)
    return found


def workers_of(driver: int) -> list[int]:
    """The Python workers below a driver: children of Spark's worker daemon."""
    every = processes()

    def is_below(process: int) -> bool:
        while process in every:
            if process == driver:
                return True
            process = every[process][0]
        return False

    daemons = {
        process
        for process, (parent, command) in every.items()
        if command.rstrip().endswith("pyspark.daemon pyspark.worker")
        and "pyspark.daemon" not in every.get(parent, (0, ""))[1]
    }
    return [p for p, (parent, _) in every.items() if parent in daemons and is_below(p)]


def test_a_query_survives_the_death_of_its_workers(tmp_path: Path) -> None:
    write_input(tmp_path / "in")
    with (tmp_path / "said").open("wb") as said:
        driver = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(tmp_path)],
            stdout=said,
            stderr=said,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            start_new_session=True,
        )
    log = LogFolder(str(tmp_path / "log"))
    deadline = time.monotonic() + PATIENCE
    victims = 0
    try:
        for batch in range(1, 16, 3):
            # A batch has just been committed, so the next one is on its way.
            while len(log.entries()) <= batch and driver.poll() is None:
                assert time.monotonic() < deadline, (tmp_path / "said").read_text()[-3000:]
                time.sleep(0.005)
            for worker in workers_of(driver.pid)[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
                    victims += 1
        assert driver.wait(PATIENCE) == 0, (tmp_path / "said").read_text()[-3000:]
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
    assert victims >= 3
    local = query(Engine(), tmp_path / "in").run_local(tmp_path / "local")
    assert log.stable() == local.stable
    expected = LogicalStream.of_batches(LogFolder(str(tmp_path / "local")).read())
    assert LogicalStream.of_batches(log.read()).agrees_with(expected) is None
