"""`anabranch show`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.cli.progress import Bar
from anabranch.cli.tables import show_table
from anabranch.engine import Engine

RUNNER = CliRunner()
STREAM = """{"insert": {"item": "chair", "price": 80, "tags": [1, null]}, "start": 5, "end": 9}
{"insert": {"item": "bed", "price": 9.5, "tags": null}, "start": 6}
{"adjust": {"item": "chair", "price": 80, "tags": [1, null]}, "start": 5, "end": 9, "new_end": 7}
{"stable": 8}
"""


@pytest.fixture
def stream(tmp_path: Path) -> str:
    path = tmp_path / "s.jsonl"
    path.write_text(STREAM)
    return str(path)


def test_the_history_is_a_table(stream: str) -> None:
    done = RUNNER.invoke(app, ["show", stream])
    assert done.exit_code == 0
    assert done.stdout == (
        "item   price  tags       start      end  final\n"
        "chair   80.0  [1, null]      5        7  yes\n"
        "bed      9.5  null           6  forever\n"
    )
    assert done.stderr == "2 events; stable point 8\n"


def test_a_snapshot_is_what_holds_at_an_instant(stream: str) -> None:
    done = RUNNER.invoke(app, ["show", stream, "--at", "6"])
    assert done.stdout == "item   price  tags\nbed      9.5  null\nchair   80.0  [1, null]\n"
    assert done.stderr == "2 payloads at 6\n"
    assert RUNNER.invoke(app, ["show", stream, "--at", "7"]).stderr == "1 payload at 7\n"
    assert RUNNER.invoke(app, ["show", stream, "--at", "-7"]).stderr == "0 payloads at -7\n"


def test_json_of_the_history_is_a_stream_again(stream: str) -> None:
    done = RUNNER.invoke(app, ["show", stream, "--json"])
    assert done.stdout == (
        '{"insert": {"item": "chair", "price": 80.0, "tags": [1, null]}, "start": 5, "end": 7}\n'
        '{"insert": {"item": "bed", "price": 9.5, "tags": null}, "start": 6}\n'
        '{"stable": 8}\n'
    )
    assert done.stderr == ""


def test_json_of_a_snapshot_is_its_payloads(stream: str) -> None:
    done = RUNNER.invoke(app, ["show", stream, "--at", "100", "--json"])
    assert done.stdout == '{"item": "bed", "price": 9.5, "tags": null}\n'


def test_the_number_of_rows_can_be_limited(stream: str) -> None:
    done = RUNNER.invoke(app, ["show", stream, "--limit", "1"])
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == "1 of 2 events; stable point 8\n"


def test_a_wrong_instant_is_explained(stream: str) -> None:
    done = RUNNER.invoke(app, ["show", stream, "--at", "noon"])
    assert done.exit_code == 2
    assert done.stderr == (
        "StreamError: 'noon' is not an instant\n"
        "  option --at\n"
        "  hint: write an integer, 'forever', or an ISO timestamp such as '2026-11-15 10:00:00'\n"
    )


def test_an_illegal_stream_has_no_history(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"adjust": {"a": 1}, "start": 5, "end": 9, "new_end": 7}\n')
    done = RUNNER.invoke(app, ["show", str(path)])
    assert done.exit_code == 2
    assert "hint: 'anabranch check' finds the element that breaks a promise" in done.stderr


def test_an_empty_stream_shows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("")
    done = RUNNER.invoke(app, ["show", str(path)])
    assert (done.exit_code, done.stderr) == (0, "0 events; no stable point\n")


def test_instants_may_be_timestamps(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"insert": {"a": 1}, "start": "2026-11-15T10:00:00"}\n')
    done = RUNNER.invoke(app, ["show", str(path), "--at", "2026-11-15 10:00"])
    assert (done.stdout, done.stderr) == ("a\n1\n", "1 payload at 2026-11-15T10:00:00\n")
    shown = RUNNER.invoke(app, ["show", str(path)]).stdout
    assert shown.splitlines()[1].split() == ["1", "2026-11-15T10:00:00", "forever"]


def test_a_terminal_gets_a_table_with_rules(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_table(["item", "price"], [["[a]"], ["80.0"]], {1})
    shown = capsys.readouterr().out
    assert "[a]" in shown
    assert "─" in shown


def test_a_bar_is_shown_on_a_terminal_after_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("anabranch.cli.progress.PATIENCE", 0.0)
    with Bar("reading", 10) as bar:
        bar(5)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Bar("reading", 10) as bar, Bar("another", 10) as other:
        bar(5)
        other(5)
    shown = capsys.readouterr().err
    assert "reading" in shown
    assert "another" not in shown
    monkeypatch.setattr("anabranch.cli.progress.PATIENCE", 60.0)
    with Bar("reading", 10) as bar:
        bar(5)
    assert capsys.readouterr().err == ""


def test_a_log_folder_is_shown_like_a_file(stream: str, tmp_path: Path) -> None:
    Engine().stream(stream).run_local(tmp_path / "log")
    shown, log = (RUNNER.invoke(app, ["show", each]) for each in (stream, str(tmp_path / "log")))
    assert log.exit_code == 0
    assert (log.stdout, log.stderr) == (shown.stdout, shown.stderr)
    assert RUNNER.invoke(app, ["diff", stream, str(tmp_path / "log")]).exit_code == 0
