"""`anabranch check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.model.batch import EventBatch
from anabranch.model.files.stream_file import read_arrivals, write_stream

RUNNER = CliRunner()
LATE = """{"stable": 10}
{"insert": {"a": 1}, "start": 5}
{"insert": {"a": 2}, "start": 15, "end": 15}
{"adjust": {"a": 3}, "start": 15, "end": 16, "new_end": 17}
"""


def test_several_violations_can_be_shown(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(LATE)
    done = RUNNER.invoke(app, ["check", str(path), "--limit", "5", "--json"])
    assert done.exit_code == 1
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["line"], line["rule"]) for line in found] == [
        (2, "late-insert"),
        (3, "empty-lifetime"),
        (4, "unknown-event"),
    ]
    assert found[0] == {
        "file": str(path),
        "legal": False,
        "line": 2,
        "element": {"insert": {"a": 1}, "start": 5, "end": "forever"},
        "rule": "late-insert",
        "promise": "stable 10 (line 1) promised that no later insert starts before 10",
    }


def test_a_legal_stream_is_summed_up_in_json(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"insert": {"a": 1}, "start": 5}\n{"stable": 5}\n')
    done = RUNNER.invoke(app, ["check", str(path), "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {
        "file": str(path),
        "legal": True,
        "inserts": 1,
        "adjusts": 0,
        "stables": 1,
        "revisions": 0,
        "stable": 5,
        "live": 1,
    }


def test_a_stream_without_promises_is_legal(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"insert": {"a": 1}, "start": 5}\n')
    done = RUNNER.invoke(app, ["check", str(path)])
    assert done.exit_code == 0
    assert "no stable point; 1 events may still change" in done.stderr
    path.write_text("")
    assert RUNNER.invoke(app, ["check", str(path)]).exit_code == 0


def test_a_reversed_lifetime_breaks_a_promise(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"insert": {"a": 1}, "start": 9, "end": 5}\n')
    done = RUNNER.invoke(app, ["check", str(path)])
    assert done.exit_code == 1
    assert done.stdout.endswith(
        'line 1: insert {"a": 1} [9, 5)\n  a lifetime ends after it starts\n'
    )


def test_parquet_is_checked_by_row(tmp_path: Path) -> None:
    lines, table = tmp_path / "s.jsonl", tmp_path / "s.parquet"
    lines.write_text('{"stable": 10}\n{"insert": {"a": 1}, "start": 5}\n')
    [piece] = read_arrivals(lines)
    promise = EventBatch.empty(piece.batch.schema, piece.batch.stable)
    write_stream(table, [promise, piece.batch])
    done = RUNNER.invoke(app, ["check", str(table)])
    assert done.exit_code == 1
    assert "s.parquet, row 2: insert" in done.stdout
    assert "stable 10 (row 1) promised" in done.stdout


def test_columns_that_show_up_late_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.model.files.stream_file.BLOCK_BYTES", 20)
    path = tmp_path / "s.jsonl"
    path.write_text(
        '{"insert": {"a": 1}, "start": 5}\n'
        '{"insert": {"a": 1.5, "b": "x"}, "start": 5, "end": 6}\n'
        '{"adjust": {"a": 1}, "start": 5, "new_end": 6}\n'
    )
    assert RUNNER.invoke(app, ["check", str(path)]).exit_code == 0


def test_timestamps_are_said_as_timestamps(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(
        '{"stable": "2026-11-15 10:00:00"}\n{"insert": {"a": 1}, "start": "2026-11-15 09:59:59"}\n'
    )
    done = RUNNER.invoke(app, ["check", str(path)])
    assert done.stdout.split(": ", 1)[1] == (
        'insert {"a": 1} [2026-11-15T09:59:59, forever)\n'
        "  stable 2026-11-15T10:00:00 (line 1) promised that no later insert starts before "
        "2026-11-15T10:00:00\n"
    )
