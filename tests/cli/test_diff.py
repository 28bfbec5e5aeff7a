"""`anabranch diff`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import anabranch as ab
from anabranch.cli.app import app
from anabranch.model.files.stream_file import read_batches, write_stream

RUNNER = CliRunner()
ONE = """{"insert": {"item": 1, "price": 80.0}, "start": 5, "end": 9}
{"insert": {"item": 2, "price": 15}, "start": 5}
{"stable": 4}
{"adjust": {"item": 1, "price": 80.0}, "start": 5, "end": 9, "new_end": 7}
"""
SAME = """{"insert": {"price": 15, "item": 2}, "start": 5, "end": 20}
{"insert": {"price": 80, "item": 1}, "start": 5, "end": 7}
{"insert": {"price": 15, "item": 2}, "start": 20}
"""
OTHER = SAME + '{"insert": {"price": 15, "item": 3}, "start": 25, "end": 26}\n' * 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.jsonl").write_text(ONE)
    (tmp_path / "b.jsonl").write_text(SAME)
    (tmp_path / "c.jsonl").write_text(OTHER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_streams_with_the_same_snapshots_are_equal(folder: Path) -> None:
    done = RUNNER.invoke(app, ["diff", "a.jsonl", "b.jsonl"])
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "equal: the same snapshot at every instant\n"
    done = RUNNER.invoke(app, ["diff", "a.jsonl", "b.jsonl", "--json"])
    assert json.loads(done.stdout) == {"equal": True}


def test_the_first_difference_is_shown_with_both_snapshots(folder: Path) -> None:
    done = RUNNER.invoke(app, ["diff", "a.jsonl", "c.jsonl"])
    assert done.exit_code == 1
    assert done.stdout == (
        "--- a.jsonl at 25: 1 payload\n"
        "+++ c.jsonl at 25: 3 payloads\n"
        '+{"item": 3, "price": 15.0}\n'
        '+{"item": 3, "price": 15.0}\n'
        ' {"item": 2, "price": 15.0}\n'
    )
    assert done.stderr == "different from instant 25 on\n"


def test_the_difference_can_be_read_by_a_program(folder: Path) -> None:
    done = RUNNER.invoke(app, ["diff", "c.jsonl", "a.jsonl", "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout) == {
        "equal": False,
        "instant": 25,
        "only_left": [{"item": 3, "price": 15.0}] * 2,
        "only_right": [],
        "both": [{"item": 2, "price": 15.0}],
    }


def test_long_snapshots_are_cut(folder: Path) -> None:
    done = RUNNER.invoke(app, ["diff", "c.jsonl", "a.jsonl", "--limit", "1"])
    assert "-... and 1 more\n" in done.stdout


def test_parquet_and_json_lines_are_compared(folder: Path) -> None:
    write_stream(folder / "a.parquet", read_batches(folder / "a.jsonl"))
    assert RUNNER.invoke(app, ["diff", "a.parquet", "b.jsonl"]).exit_code == 0
    assert RUNNER.invoke(app, ["diff", "a.parquet", "c.jsonl"]).exit_code == 1


def test_a_column_that_is_missing_is_null(folder: Path) -> None:
    (folder / "d.jsonl").write_text('{"insert": {"a": 1, "b": null}, "start": 1}\n')
    (folder / "e.jsonl").write_text('{"insert": {"a": 1}, "start": 1}\n')
    (folder / "f.jsonl").write_text('{"insert": {"a": 1, "b": 2}, "start": 1}\n')
    assert RUNNER.invoke(app, ["diff", "d.jsonl", "e.jsonl"]).exit_code == 0
    assert RUNNER.invoke(app, ["diff", "e.jsonl", "f.jsonl"]).exit_code == 1


def test_columns_of_different_kinds_cannot_be_compared(folder: Path) -> None:
    (folder / "d.jsonl").write_text('{"insert": {"item": "x"}, "start": 1}\n')
    done = RUNNER.invoke(app, ["diff", "a.jsonl", "d.jsonl"])
    assert done.exit_code == 2
    assert done.stderr == (
        "StreamError: column 'item' has two incompatible types\n"
        "  int64 in the first stream, string in the second\n"
        "  hint: streams are compared column by column, by name\n"
    )


def test_timestamps_are_compared_and_shown(folder: Path) -> None:
    (folder / "d.jsonl").write_text('{"insert": {"a": 1}, "start": "2026-11-15 10:00:00"}\n')
    (folder / "e.jsonl").write_text('{"insert": {"a": 1}, "start": "2026-11-15T10:00:01"}\n')
    done = RUNNER.invoke(app, ["diff", "d.jsonl", "e.jsonl"])
    assert done.stdout.splitlines()[0] == "--- d.jsonl at 2026-11-15T10:00:00: 1 payload"
    assert done.stdout.splitlines()[1] == "+++ e.jsonl at 2026-11-15T10:00:00: 0 payloads"
    done = RUNNER.invoke(app, ["diff", "d.jsonl", "e.jsonl", "--json"])
    assert json.loads(done.stdout)["instant"] == "2026-11-15T10:00:00"


def test_an_empty_stream_differs_from_one_that_is_not(folder: Path) -> None:
    (folder / "d.jsonl").write_text("")
    assert RUNNER.invoke(app, ["diff", "a.jsonl", "d.jsonl"]).exit_code == 1
    assert RUNNER.invoke(app, ["diff", "d.jsonl", "d.jsonl"]).exit_code == 0


def test_a_log_folder_and_a_stream_file_of_one_query_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    times = [{"at": f"2026-11-01T10:{minute:02d}:00", "v": minute} for minute in range(30)]
    stream = ab.Engine().stream(times, start="at", name="Row")
    query = stream.tumbling("10 minutes", columns=True).agg(n="COUNT(*)", day="MAX(date(at))")
    query.run_local(to="log/")
    query.run_local(to="file.jsonl")
    for sides in (["log", "file.jsonl"], ["file.jsonl", "log"]):
        done = RUNNER.invoke(app, ["diff", *sides])
        assert done.exit_code == 0, done.output
    text = Path("file.jsonl").read_text()
    Path("file.jsonl").write_text(text.replace("10:10:00", "10:11:00"))
    done = RUNNER.invoke(app, ["diff", "log", "file.jsonl"])
    assert done.exit_code == 1
