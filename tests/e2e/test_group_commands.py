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
from tests.e2e.test_kill_driver import PATIENCE, wait_for

from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING
from anabranch.runtime.sources.files.log_folder import LogFolder

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


def test_queries_join_and_leave_by_command(tmp_path: Path) -> None:
    declared = DECLARED.format(folder=tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "report.sql").write_text(f"{declared};\n{select(900)};\n{select(700)};\n")
    (tmp_path / "dear.sql").write_text(f"{declared};\n{select(400, least=500)};\n")
    write_file(tmp_path, 0, ROWS)
    said = tmp_path / "said"
    with said.open("ab") as log:
        process = subprocess.Popen(
            [*COMMAND, "run", "report.sql", "--all", "--follow", "--to", "report"],
            cwd=tmp_path,
            stdout=log,
            stderr=log,
            env={**os.environ, "ANABRANCH_HOME": str(tmp_path / "home")},
            start_new_session=True,
        )
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
    for name, size, least, since in (
        ("query_1", 900, 0, 0),
        ("query_2", 700, 0, 0),
        ("dear", 400, 500, joined["at"]),
    ):
        found = LogicalStream.of_batches(parts_of(report / name))
        for instant in instants(stable_of(report / name), since):
            wanted = answers(tmp_path, instant, size, least) if instant >= since else []
            assert sorted(found.snapshot(instant).elements()) == wanted, (name, instant)
        assert_legal(report / name)
