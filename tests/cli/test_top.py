"""`anabranch top`: rates, one look, and the view that changes in place."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.cli.queries.entries import RunningQueries, RunningQuery
from anabranch.cli.queries.top import Rates

pytestmark = pytest.mark.commands

ENTRY = RunningQuery.here(
    name="highest", script="h.sql", to="out.jsonl", started="2026-11-15T10:00:00"
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_rates_are_those_of_the_last_ten_seconds() -> None:
    rates = Rates()
    rates.look([ENTRY], 100.0)
    assert rates.of(ENTRY) == (0.0, 0.0)
    rates.look([replace(ENTRY, rows_in=50, rows_out=10)], 105.0)
    assert rates.of(ENTRY) == (10.0, 2.0)
    rates.look([replace(ENTRY, rows_in=250, rows_out=10)], 112.0)
    # What was seen at 100 is too long ago.
    assert rates.of(ENTRY) == (200 / 7, 0.0)
    rates.look([], 113.0)
    rates.look([replace(ENTRY, rows_in=900)], 114.0)
    assert rates.of(ENTRY) == (0.0, 0.0)


def test_one_look_shows_what_runs() -> None:
    entry = RunningQueries().claim(ENTRY)
    RunningQueries().write(
        replace(
            entry,
            batch=12,
            stable=80,
            lag=5,
            late=3,
            revised=4,
            failed_windows=2,
            state_bytes=18_432,
        )
    )
    shown = CliRunner().invoke(app, ["top", "--once"])
    names, row = shown.stdout.splitlines()
    assert names.split()[:4] == ["name", "status", "batch", "in/s"]
    assert row.split() == [
        *(
            "highest",
            "running",
            "12",
            "0",
            "0",
            "3",
            "4",
            "2",
            "80",
            "5",
            "0",
            "18",
            "kB",
            "out.jsonl",
        )
    ]


def test_nothing_runs() -> None:
    shown = CliRunner().invoke(app, ["top", "--once"])
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert "no queries are running" in shown.output


def test_the_view_changes_in_place_until_it_is_interrupted(home: Path) -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "anabranch.cli.app", "top", "--interval", "0.1"],
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "160", "ANABRANCH_HOME": str(home)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(follower)
    try:
        read_until(leader, b"0 queries")
        RunningQueries(home).claim(ENTRY)
        read_until(leader, b"highest")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
    finally:
        process.kill()
        process.wait()
        os.close(leader)


def read_until(leader: int, wanted: bytes) -> None:
    seen, deadline = b"", time.monotonic() + 30
    while wanted not in seen:
        assert time.monotonic() < deadline, seen
        seen += os.read(leader, 4096)
