"""`anabranch migrate` says what has become of a change, and when one that waits begins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from anabranch.cli.app import app
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.migrations import MigrationFolder, MigrationRecord
from anabranch.runtime.store.query_record import QueryRecord, write_query_record


@pytest.fixture
def changes(tmp_path: Path) -> MigrationFolder:
    write_query_record(Folder.at(str(tmp_path)), QueryRecord(query="q", shards=2))
    (tmp_path / "new.sql").write_text("SELECT 1 AS one")
    return MigrationFolder.of(str(tmp_path))


def migrate(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["migrate", str(folder), str(folder / "new.sql"), *words])


def test_a_query_that_does_not_run_changes_with_its_next_start(
    changes: MigrationFolder, tmp_path: Path
) -> None:
    said = migrate(tmp_path)
    assert (said.exit_code, said.stderr) == (
        0,
        "change 1: begins when the query is started again\n",
    )
    # It waits for the first one, whoever has asked for it.
    assert migrate(tmp_path).stderr == "change 2: begins when change 1 is over\n"
    assert [each.state for each in changes.waiting()] == ["requested", "requested"]
    (tmp_path / "more.sql").write_text("SELECT 1 AS one")
    words = ["add", str(tmp_path), str(tmp_path / "more.sql"), "--to", str(tmp_path / "more")]
    assert CliRunner().invoke(app, words).stderr == (
        "change 3: 'more' joins when change 1 is over\n"
    )


def test_modules_are_handed_in_by_their_full_paths(
    changes: MigrationFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine.py", "more.py"):
        (tmp_path / name).write_text("")
    both = ["--modules", "mine.py", "--modules", f"{tmp_path}/more.py"]
    assert migrate(tmp_path, *both).exit_code == 0
    words = ["add", str(tmp_path), str(tmp_path / "new.sql"), "--to", "more", *both[:2]]
    assert CliRunner().invoke(app, words).exit_code == 0
    changed, added = changes.waiting()
    assert changed.modules == (f"{tmp_path}/mine.py", f"{tmp_path}/more.py")
    assert added.modules == (f"{tmp_path}/mine.py",)


def test_modules_that_are_not_there_or_mean_nothing_are_refused(
    changes: MigrationFolder, tmp_path: Path
) -> None:
    missing = migrate(tmp_path, "--modules", "nowhere.py")
    assert missing.exit_code == 2
    assert "there is no file with modules 'nowhere.py'" in missing.stderr
    (tmp_path / "mine.py").write_text("")
    words = ["migrate", str(tmp_path), "--reoptimize", "--modules", str(tmp_path / "mine.py")]
    assert "--modules has no meaning with --reoptimize" in CliRunner().invoke(app, words).stderr
    assert changes.records() == []


def test_records_of_before_have_no_modules(changes: MigrationFolder) -> None:
    written = changes.write(MigrationRecord(number=1, text="SELECT 1 AS one"))
    assert "modules" not in (changes.folder.read_json("1.json") or {})
    assert changes.read(1) == written


def test_the_beginning_of_time_has_a_name(changes: MigrationFolder, tmp_path: Path) -> None:
    changes.add(
        MigrationRecord(number=0, state="finished", how="clip", at=-(2**63), reason="nothing")
    )
    listed = CliRunner().invoke(app, ["migrations", str(tmp_path)])
    assert "the beginning" in listed.stdout
    said = json.loads(CliRunner().invoke(app, ["migrations", str(tmp_path), "--json"]).stdout)
    assert said["at"] == -(2**63)
