"""`check`, `show` and `diff` take folders and patterns: their files are one stream."""

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from anabranch.cli.app import app
from anabranch.model.files.stream_file import read_batches, write_stream

FIRST = '{"insert": {"a": 1}, "start": 5, "end": 9}\n{"stable": 6}\n'
SECOND = '{"insert": {"a": 2}, "start": 7, "end": 9}\n{"stable": 8}'
LATE = '\n{"insert": {"a": 3}, "start": 4, "end": 9}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "parts"
    made.mkdir()
    (made / "1.jsonl").write_text(FIRST)
    with gzip.open(made / "2.jsonl.gz", "wt") as file:
        file.write(SECOND)
    (made / "_hidden.jsonl").write_text("not read")
    return made


def anabranch(*words: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


def test_the_files_of_a_folder_are_one_stream(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "whole.jsonl").write_text(FIRST + SECOND)
    assert (
        "legal; 2 inserts, 0 adjusts, 2 stables; stable point 8"
        in anabranch("check", folder).stderr
    )
    shown = anabranch("show", folder).stdout
    assert shown == anabranch("show", tmp_path / "whole.jsonl").stdout
    assert anabranch("show", f"{folder}/*", "--at", "7").stdout.split() == ["a", "1", "2"]
    assert anabranch("diff", folder, tmp_path / "whole.jsonl").exit_code == 0
    assert anabranch("diff", folder, f"{folder}/1*").exit_code == 1


def test_a_violation_is_found_in_its_file(folder: Path) -> None:
    (folder / "3.jsonl").write_text(FIRST.splitlines()[1] + LATE)
    found = anabranch("check", folder)
    assert found.exit_code == 1
    assert found.stdout.startswith(f'{folder}/3.jsonl, line 2: insert {{"a": 3}} [4, 9)')
    assert f"not legal, see line 2 of {folder}/3.jsonl" in found.stderr
    as_json = json.loads(anabranch("check", folder, "--json").stdout)
    assert (as_json["file"], as_json["line"]) == (f"{folder}/3.jsonl", 2)


def test_parquet_files_are_one_stream_too(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "whole.jsonl").write_text(FIRST + SECOND)
    parquet = tmp_path / "parquet"
    parquet.mkdir()
    for number, text in enumerate((FIRST, SECOND)):
        (tmp_path / "one.jsonl").write_text(text)
        write_stream(parquet / f"{number}.parquet", list(read_batches(tmp_path / "one.jsonl")))
    assert anabranch("diff", parquet, tmp_path / "whole.jsonl").exit_code == 0


def test_folders_without_stream_files_are_refused(folder: Path) -> None:
    (folder / "prices.csv").write_text("a,b\n")
    found = anabranch("check", folder)
    assert found.exit_code == 2
    assert "not all stream files of one kind" in found.stderr
    assert "no file matches the pattern" in anabranch("show", f"{folder}/*.x").stderr
