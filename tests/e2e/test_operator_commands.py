"""User operators get another version by command, while the query that calls them runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.module_query import write_input
from tests.e2e.module_versions import told_of_windows
from tests.e2e.revised_queries import assert_legal
from tests.e2e.test_group_commands import COMMAND, anabranch, parts_of, stable_of
from tests.e2e.test_kill_driver import PATIENCE, kill, wait_for

from anabranch.model.logical import LogicalStream

pytestmark = pytest.mark.spark

SCRIPT = (
    "CREATE STREAM Rows (k BIGINT, v BIGINT, t BIGINT) SOURCE 'in/*.parquet' "
    "ORDERED BY t DELAY 18;\n"
    "SELECT k, counted(v) AS said FROM Rows GROUP BY k, HOPPING(40, 20);\n"
)


def run(folder: Path, modules: str) -> subprocess.Popen[bytes]:
    with (folder / "said").open("ab") as log:
        return subprocess.Popen(
            [*COMMAND, "run", "it.sql", "--modules", modules, "--follow", "--to", "log"],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, "ANABRANCH_HOME": str(folder / "home")},
            start_new_session=True,
        )


def test_a_new_version_is_handed_in_by_command_and_survives_a_restart(tmp_path: Path) -> None:
    (tmp_path / "it.sql").write_text(SCRIPT)
    for name, module in (("first.py", "module_query.py"), ("second.py", "module_versions.py")):
        shutil.copy(Path(__file__).with_name(module), tmp_path / name)
    log, said = tmp_path / "log", tmp_path / "said"
    write_input(tmp_path / "in", 6)
    process = run(tmp_path, "first.py")
    try:
        wait_for(process, lambda: stable_of(log) >= 20, said)
        words = ("migrate", "log", "it.sql", "--how", "state", "--modules", "second.py", "--json")
        changed = anabranch(tmp_path, *words)
        assert changed.returncode == 0, changed.stdout + changed.stderr
        record: dict[str, Any] = json.loads(changed.stdout)
        assert (record["how"], record["modules"]) == ("state", [f"{tmp_path}/second.py"])
        write_input(tmp_path / "in", 12)
        wait_for(process, lambda: stable_of(log) >= 80, said)
        kill(process)
        process = run(tmp_path, "second.py")
        write_input(tmp_path / "in", 18)
        wait_for(process, lambda: stable_of(log) >= 140, said)
        assert anabranch(tmp_path, "stop", "it").returncode == 0
        process.wait(PATIENCE)
    finally:
        if process.poll() is None:
            kill(process)
    found = LogicalStream.of_batches(parts_of(log))
    for instant in range(stable_of(log)):
        told = told_of_windows(tmp_path, instant, mean=instant >= record["at"])
        wanted = sorted((k, what) for k, _, _, what in told)
        assert sorted(found.snapshot(instant).elements()) == wanted, instant
    assert_legal(log)
