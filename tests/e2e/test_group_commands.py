"""Queries join a running process and leave it by the documented commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.changed_queries import DECLARED, answers, instants, write_file
from tests.e2e.revised_queries import assert_legal
from tests.e2e.test_kill_driver import PATIENCE, kill, wait_for

from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.migrations import MigrationFolder
from anabranch.runtime.store.phases import HALT

pytestmark = pytest.mark.spark

ROWS = 2_000
COMMAND = (sys.executable, "-m", "anabranch")


def select(size: int, least: int = 0) -> str:
    where = f"WHERE price >= {least}" if least else ""
    return (
        f"SELECT item, COUNT(*) AS n, SUM(price) AS total FROM Bid WINDOW(RANGE {size}) {where} "
        "GROUP BY item"
    )


def anabranch(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words],
        cwd=folder,
        env={**os.environ, "ANABRANCH_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def parts_of(log: Path) -> list[EventBatch]:
    return [part for part in LogFolder(str(log)).parts() if isinstance(part, EventBatch)]


def stable_of(log: Path) -> int:
    parts = parts_of(log) if LogFolder(str(log)).record() is not None else []
    return int(parts[-1].stable) if parts else int(BEGINNING)


def run_group(folder: Path, **environment: str) -> subprocess.Popen[bytes]:
    """The command that runs the group; whoever starts it again uses the same words."""
    with (folder / "said").open("ab") as log:
        return subprocess.Popen(
            [*COMMAND, "run", "report.sql", "--all", "--follow", "--to", "report"],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, "ANABRANCH_HOME": str(folder / "home"), **environment},
            start_new_session=True,
        )


def write_scripts(folder: Path) -> None:
    declared = DECLARED.format(folder=folder)
    (folder / "in").mkdir()
    (folder / "report.sql").write_text(f"{declared};\n{select(900)};\n{select(700)};\n")
    (folder / "dear.sql").write_text(f"{declared};\n{select(400, least=500)};\n")


def assert_answered(folder: Path, joined: int) -> None:
    """Each query has its own answer, the one that joined from its instant on."""
    for name, size, least, since in (
        ("query_1", 900, 0, 0),
        ("query_2", 700, 0, 0),
        ("dear", 400, 500, joined),
    ):
        log = folder / "report" / name
        found = LogicalStream.of_batches(parts_of(log))
        for instant in instants(stable_of(log), since):
            wanted = answers(folder, instant, size, least) if instant >= since else []
            assert sorted(found.snapshot(instant).elements()) == wanted, (name, instant)
        assert_legal(log)


@pytest.mark.faults
def test_a_killed_group_is_started_again_by_the_same_command(tmp_path: Path) -> None:
    """Kill -9 while a query joins, and when another one has left."""
    write_scripts(tmp_path)
    write_file(tmp_path, 0, ROWS)
    said, report = tmp_path / "said", tmp_path / "report"
    home = MigrationFolder.of(str(report / "_checkpoint"))
    halted = tmp_path / "halted"
    process = run_group(tmp_path, **{HALT: f"migration seeded@any={halted}"})
    try:
        wait_for(process, lambda: stable_of(report / "query_2") > 500, said)
        adding = ("add", "report", "dear.sql", "--to", "report/dear", "--wait", "0")
        assert anabranch(tmp_path, *adding).returncode == 0
        # The log of the query that joins is made, and the plan is not in force yet.
        wait_for(process, halted.exists, said)
        kill(process)
        assert LogFolder(str(report / "dear")).record() is not None
        # Nobody asks again: the request is in the checkpoint.
        process = run_group(tmp_path)
        write_file(tmp_path, 1, ROWS)
        wait_for(process, lambda: stable_of(report / "dear") > 1_100, said)
        assert anabranch(tmp_path, "drop", "report", "query_1").returncode == 0
        kill(process)
        process = run_group(tmp_path)
        for number in range(2, 4):
            write_file(tmp_path, number, ROWS)
        wait_for(process, lambda: stable_of(report / "dear") > 2_300, said)
        shown = anabranch(tmp_path, "ps", "--json").stdout
        assert list(json.loads(shown.splitlines()[-1])["queries"]) == ["query_2", "dear"]
        assert anabranch(tmp_path, "stop", "report").returncode == 0
        process.wait(PATIENCE)
    finally:
        if process.poll() is None:
            kill(process)
    joined, left = home.records()
    assert (joined.verb, left.verb, left.state) == ("add", "drop", "finished")
    assert joined.at is not None
    assert stable_of(report / "query_1") < 1_200
    assert stable_of(report / "query_2") > 2_300
    assert_answered(tmp_path, joined.at)


def test_queries_join_and_leave_by_command(tmp_path: Path) -> None:
    write_scripts(tmp_path)
    write_file(tmp_path, 0, ROWS)
    said = tmp_path / "said"
    process = run_group(tmp_path)
    report = tmp_path / "report"
    try:
        wait_for(process, lambda: stable_of(report / "query_2") > 500, said)
        added = anabranch(
            tmp_path, "add", "report/query_1", "dear.sql", "--to", "report/dear", "--json"
        )
        assert added.returncode == 0, added.stderr
        joined = json.loads(added.stdout)
        assert (joined["state"], joined["how"], joined["what"]) == ("finished", "clip", "dear")
        for number in range(1, 3):
            write_file(tmp_path, number, ROWS)
        wait_for(process, lambda: stable_of(report / "dear") > 1_700, said)

        def listed() -> list[str]:
            shown = anabranch(tmp_path, "ps", "--json").stdout
            return list(json.loads(shown)["queries"])

        wait_for(process, lambda: listed() == ["query_1", "query_2", "dear"], said)
        unknown = anabranch(tmp_path, "drop", "report/query_1", "nobody")
        assert unknown.returncode == 1
        assert "no query 'nobody' runs here" in unknown.stderr
        assert "query_1, query_2, dear" in unknown.stderr
        # The one that the process was started with first: the others go on.
        left = anabranch(tmp_path, "drop", "report/query_1", "query_1")
        assert left.returncode == 0, left.stderr
        assert "'query_1' has left" in left.stderr
        ended = stable_of(report / "query_1")
        write_file(tmp_path, 3, ROWS)
        wait_for(process, lambda: stable_of(report / "dear") > 2_300, said)
        wait_for(process, lambda: listed() == ["query_2", "dear"], said)
        assert anabranch(tmp_path, "stop", "report").returncode == 0
        process.wait(PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
    assert stable_of(report / "query_1") == ended
    changes = anabranch(tmp_path, "migrations", "report/query_2").stdout
    assert "refused" in changes
    assert_answered(tmp_path, joined["at"])
