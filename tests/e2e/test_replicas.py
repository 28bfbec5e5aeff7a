"""Replicas as a user runs them: processes, the documented commands, and kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from anabranch import Engine, LogicalStream
from anabranch.model.files.stream_file import read_batches
from anabranch.runtime.sources.files.log_folder import LogFolder

pytestmark = [pytest.mark.spark, pytest.mark.commands]

SCRIPT = """
CREATE STREAM Bid (item INT, price INT, at INT) SOURCE 'bids/*.jsonl' ORDERED BY at DELAY 10;
SELECT item, MAX(price) AS highest FROM Bid WINDOW(RANGE 50 SLIDE 10) GROUP BY item
"""
BETTER = """
CREATE STREAM Bid (item INT, price INT, at INT) SOURCE 'bids/*.jsonl' ORDERED BY at DELAY 10
  WITH (max_files_per_batch = 1);
SELECT item, MAX(price) AS highest FROM Bid WINDOW(RANGE 50 SLIDE 10) WHERE item < 2 GROUP BY item
UNION ALL
SELECT item, MAX(price) AS highest FROM Bid WINDOW(RANGE 50 SLIDE 10) WHERE item >= 2 GROUP BY item
"""
"""The same by another plan."""

PATIENCE = 180.0


class Shop:
    """A folder with bids, and processes that work in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = 0
        self.environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "ANABRANCH_HOME": str(folder / "home"),
        }
        (folder / "bids").mkdir()
        (folder / "highest.sql").write_text(SCRIPT)
        (folder / "better.sql").write_text(BETTER)

    def bid(self) -> int:
        """One more file of bids; the instant of the last one."""
        begin = self.files * 100
        lines = [
            json.dumps({"item": n % 5, "price": n * (7 + self.files) % 100, "at": begin + n // 2})
            for n in range(200)
        ]
        hidden = self.folder / "bids" / f".{self.files}"
        hidden.write_text("\n".join(lines) + "\n")
        hidden.replace(self.folder / "bids" / f"{self.files:03}.jsonl")
        self.files += 1
        return begin + 99

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command that ends by itself."""
        return subprocess.run(
            [sys.executable, "-m", "anabranch", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    @contextmanager
    def process(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """A command that goes on, asked to end in the end."""
        with (self.folder / "processes.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "anabranch", *words],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
            try:
                yield process
            finally:
                process.terminate()
                process.wait(PATIENCE)

    def running(self, to: str) -> dict[str, Any] | None:
        """What `ps` says of the query that writes to a folder."""
        lines = self.command("ps", "--json").stdout.splitlines()
        every = [json.loads(line) for line in lines]
        return next((each for each in every if each["to"].endswith(to)), None)

    def await_(self, log: str, instant: int) -> None:
        """Wait until a log is settled nearly as far as the bids."""
        deadline = time.monotonic() + PATIENCE
        while LogFolder(str(self.folder / log)).stable() < instant - 20:
            assert time.monotonic() < deadline, f"{log} does not get to {instant}"
            time.sleep(0.1)


def test_replicate_kill_jumpstart_and_cutover_by_the_documented_commands(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    last = shop.bid()
    words = ["--copies", "2", "--to", "highest", "--case", "r3", "--trigger", "100 milliseconds"]
    with shop.process("replicate", "highest.sql", *words):
        # Several batches, so that the log of a copy does not begin with the last one.
        for _ in range(2):
            shop.await_("highest/merged", last)
            last = shop.bid()
        shop.await_("highest/copies/highest-1", last)
        assert len(LogFolder(str(tmp_path / "highest/copies/highest-1")).entries()) > 2
        # The commands find the checkpoints where replicate has put them.
        state = shop.command("state", "highest/merged")
        assert "Merge copies by r3" in state.stdout, state.stderr
        refused = shop.command("control", "highest/merged", "detach", "copies", "--copy", "other")
        assert refused.returncode == 2
        assert "there are highest-1, highest-2" in refused.stderr
        # The new copy has another plan.
        second = ["highest/copies/highest-1", "highest/copies/second"]
        begun = shop.command("jumpstart", *second, "--script", "better.sql")
        assert "complete for events that end at" in begun.stderr, begun.stderr
        follow = ["--canonical", "--follow", "--trigger", "100 milliseconds"]
        with shop.process("run", "better.sql", *follow, "--to", "highest/copies/second"):
            killed = shop.running("highest/copies/highest-2")
            assert killed is not None
            os.kill(killed["pid"], signal.SIGKILL)
            last = shop.bid()
            shop.await_("highest/copies/second", last)
            done = shop.command(
                "cutover",
                "highest/merged",
                "highest/copies/highest-1",
                "highest/copies/second",
                "--patience",
                "120",
            )
            assert done.returncode == 0, done.stderr
            assert "the merge continues with highest/copies/second" in done.stderr
            commands = shop.command("control", "highest/merged", "--json").stdout.splitlines()
            taken = [json.loads(each) for each in commands]
            assert {(each["status"], each["command"]["copy"]) for each in taken} == {
                ("taken", "highest-1")
            }
            last = shop.bid()
            shop.await_("highest/merged", last)
            # Who was killed has come back and has caught up.
            shop.await_("highest/copies/highest-2", last)
    # What the merge has noticed is written down: nobody has contradicted anybody.
    lines = (tmp_path / "highest/work/merge.metrics.jsonl").read_text().splitlines()
    stages = [stage for line in lines for stage in json.loads(line)["stages"].values()]
    copies = [copy for stage in stages for each in stage["reports"] for copy in each["copies"]]
    assert {copy["name"] for copy in copies} == {"highest-1", "highest-2", "second"}
    assert {copy["diverged"] for copy in copies} == {0}
    # The new copy has left out what cannot matter any more.
    since = LogFolder(str(tmp_path / "highest/copies/second")).record()
    assert since is not None
    assert since.since is not None
    log = LogFolder(str(tmp_path / "highest/merged"))
    got = LogicalStream.of_batches(list(log.read()))
    checked = shop.command("check", "highest/merged")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        Engine().sql(SCRIPT).run_local(to=tmp_path / "right.jsonl")
    right = LogicalStream.of_batches(list(read_batches(tmp_path / "right.jsonl")))
    assert got.difference(right, log.stable()) == ""
