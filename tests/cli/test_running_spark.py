"""A real query on Spark, followed, listed and stopped from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "anabranch.cli.app"]
SCRIPT = """CREATE STREAM Bid (itemID INT, price DOUBLE) SOURCE 'bids.jsonl';
SELECT itemID, MAX(price) AS highest FROM Bid WINDOW(RANGE 5) GROUP BY itemID;
"""
BIDS = """{"insert": {"itemID": 1, "price": 80.0}, "start": 5, "end": 9}
{"insert": {"itemID": 2, "price": 30.0}, "start": 6}
{"stable": 12}
"""


@pytest.mark.spark
def test_a_query_that_is_followed_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    (tmp_path / "highest.sql").write_text(SCRIPT)
    (tmp_path / "bids.jsonl").write_text(BIDS)

    def anabranch(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False)

    # Its messages go to a file: nobody reads a pipe while the query runs.
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            [*COMMAND, "run", "highest.sql", "--follow", "--to", "out.jsonl"],
            cwd=tmp_path,
            stderr=log,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        ) as process,
    ):
        try:
            deadline = time.monotonic() + 300
            entry = tmp_path / "home" / "queries" / "highest.json"
            while not entry.exists() or json.loads(entry.read_text())["batch"] is None:
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(0.1)
            [shown] = map(json.loads, anabranch("ps", "--json").stdout.splitlines())
            assert (shown["name"], shown["status"], shown["pid"]) == (
                "highest",
                "running",
                process.pid,
            )
            assert (shown["rows_in"], shown["stable"], shown["to"]) == (2, 12, "out.jsonl")
            done = anabranch("stop", "highest")
            assert (done.returncode, done.stderr) == (0, "highest has stopped\n")
            assert process.wait(60) == 0
        finally:
            process.kill()
    said = (tmp_path / "log").read_text()
    assert "asked to stop: highest stops after this batch\nhighest has stopped\n" in said
    assert "1 batch: 2 rows read, 2 elements written\n" in said
    assert (tmp_path / "out.jsonl").read_text() == (
        '{"insert": {"itemID": 1, "highest": 80.0}, "start": 5, "end": 13}\n'
        '{"insert": {"itemID": 2, "highest": 30.0}, "start": 6}\n'
        '{"stable": 12}\n'
    )
    assert anabranch("ps").stderr == "no queries are running\n"
