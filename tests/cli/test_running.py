"""Queries are announced to other processes, which may ask them to stop."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.cli.queries.entries import RunningQueries, RunningQuery, began, state_folder

pytestmark = pytest.mark.commands

COMMAND = [sys.executable, "-m", "anabranch.cli.app"]
QUERY = """
import signal, sys, threading
from anabranch.cli.queries.running import announced, wait_for
from anabranch.model.clock import INTEGERS
from anabranch.runtime.store.migrations import MigrationRecord

# Whoever runs the tests may ignore some.
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)

class Run:
    name = "query_1"
    stable = 12
    log_folder = "/out/highest"
    group = None
    has_left = False
    reads = frozenset()
    change = MigrationRecord(number=2, state="switched", how="clip", at=70)
    def __init__(self, busy):
        self.busy, self.said = busy, False
        self.ended = threading.Event()
    @property
    def is_busy(self):
        return self.busy
    def await_end(self, timeout):
        # By now there is an entry, and signals are caught.
        if not self.said:
            print(announcement.name, flush=True)
            self.said = True
        return self.ended.wait(0.05)
    def metrics(self):
        count = {"batch": 7, "rows_in": 3, "rows_out": 2, "late": 0, "rewritten": 4}
        copies = {"a": {"rows": 1}, "b": {"rows": 0, "problem": "it has no column 'k'"}}
        sources = {"copies": {"rows": 3, "copies": copies}}
        return [{**count, "milliseconds": {"triggerExecution": 1}, "sources": sources}]
    def stop(self, force=False):
        self.ended.set()

run = Run(sys.argv[1:] == ["busy"])
with announced(run, script="/in/highest.sql", to="out.jsonl", clock=INTEGERS) as announcement:
    announcement.refresh()
    code = wait_for(run, announcement)
sys.exit(code)
"""
"""A process with a query that never ends by itself."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A query in a process of its own; it says its name when it has been announced."""
    process = subprocess.Popen(
        [sys.executable, "-c", QUERY, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def name_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.read()


def anabranch(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False)


def an_entry(name: str = "highest") -> RunningQuery:
    return RunningQuery.here(name=name, script="q.sql", to="-", started="2026-11-15T10:00:00+00:00")


def test_the_folder_is_where_the_user_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert state_folder() == tmp_path / "home"
    monkeypatch.delenv("ANABRANCH_HOME")
    assert state_folder() == tmp_path / "state" / "anabranch"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_folder() == tmp_path / ".local" / "state" / "anabranch"


def test_nobody_else_may_look(home: Path) -> None:
    RunningQueries().claim(an_entry())
    for path in (home, home / "queries"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    [file] = (home / "queries").glob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@given(names=st.lists(st.text(min_size=1, max_size=300), min_size=1, max_size=4, unique=True))
def test_any_name_has_a_file_of_its_own(
    names: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("state")
    entries = RunningQueries(folder)
    legal = [name for name in names if not any("\ud800" <= each <= "\udfff" for each in name)]
    for name in legal:
        assert entries.claim(an_entry(name)).name == name
    assert sorted(entry.name for entry in entries.all()) == sorted(legal)
    assert {path.name for path in folder.iterdir()} == {"queries"}


@pytest.mark.parametrize("name", ["../../x", "a/b", "..", ".", ".hidden", "x" * 500, "\0"])
def test_names_do_not_lead_out_of_the_folder(name: str, tmp_path: Path) -> None:
    entries = RunningQueries(tmp_path)
    entries.ask_to_stop(entries.claim(an_entry(name)))
    assert len(list((tmp_path / "queries").glob("[!.]*"))) == 2
    assert entries.find(name) is not None


def test_a_name_that_is_taken_gets_a_number() -> None:
    entries = RunningQueries()
    names = [entries.claim(an_entry()).name for _ in range(3)]
    assert names == ["highest", "highest_2", "highest_3"]


def test_the_name_of_a_dead_query_is_free_again() -> None:
    entries = RunningQueries()
    # The number of this process, but of one that began at another time.
    dead = entries.claim(replace(an_entry(), process="0"))
    entries.ask_to_stop(dead)
    assert not dead.is_alive
    claimed = entries.claim(an_entry())
    assert claimed.name == "highest"
    assert not entries.is_asked(claimed)


def test_a_request_to_stop_is_for_one_query_only() -> None:
    entries = RunningQueries()
    entry = entries.claim(an_entry())
    entries.ask_to_stop(replace(entry, pid=entry.pid + 1))
    assert not entries.is_asked(entry)
    entries.ask_to_stop(entry)
    assert entries.is_asked(entry)


def test_what_is_not_an_entry_is_not_shown(home: Path) -> None:
    entries = RunningQueries()
    entries.claim(an_entry())
    (home / "queries" / "noise.json").write_text("{")
    (home / "queries" / "list.json").write_text("[1]")
    RunningQueries().claim(replace(an_entry("far"), host="another machine"))
    assert [entry.name for entry in entries.all()] == ["highest"]


def test_only_what_was_claimed_is_removed() -> None:
    entries = RunningQueries()
    old = entries.claim(replace(an_entry(), process="0"))
    new = entries.claim(an_entry())
    entries.remove(old)
    assert entries.find("highest") == new
    entries.remove(new)
    assert entries.all() == []


def test_processes_that_are_gone_have_no_beginning() -> None:
    assert began(os.getpid())
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert began(process.pid) is None


def test_ps_shows_what_runs() -> None:
    assert anabranch("ps").stderr == "no queries are running\n"
    with running() as process:
        assert name_of(process) == "highest"
        shown = anabranch("ps").stdout.splitlines()
        words = shown[1].split()
        assert shown[0].split()[:3] == ["name", "status", "started"]
        assert words[:2] + words[3:10] == [
            *("highest", "running", "7", "12", "3", "2"),
            *("/in/highest.sql", "out.jsonl", str(process.pid)),
        ]
        change = "change 2 by clip: the old answer before 70, the new one from there on"
        assert shown[0].endswith("files written again")
        assert shown[1].endswith(f"{change}  b: it has no column 'k'  4")
        [line] = anabranch("ps", "--json").stdout.splitlines()
        found = json.loads(line)
        assert (found["batch"], found["stable"], found["rows_in"]) == (7, 12, 3)
        assert found["rewritten"] == 4


def test_a_query_that_died_is_shown_as_gone_once() -> None:
    with running() as process:
        name_of(process)
        process.kill()
        process.wait()
    assert [line.split()[1] for line in anabranch("ps").stdout.splitlines()[1:]] == ["gone"]
    assert anabranch("ps").stderr == "no queries are running\n"


def test_stop_ends_a_query() -> None:
    with running() as process:
        name_of(process)
        done = anabranch("stop", "highest")
        assert (done.returncode, done.stderr) == (0, "highest has stopped\n")
        assert process.wait(10) == 0
        assert said(process) == (
            "asked to stop: highest stops after this batch\nhighest has stopped\n"
        )
    assert anabranch("ps").stderr == "no queries are running\n"


def test_unknown_names_get_a_hint() -> None:
    done = anabranch("stop", "highest")
    assert (done.returncode, done.stderr) == (
        2,
        "QueryError: there is no running query 'highest'\n"
        "  anabranch stop highest\n"
        "  hint: no queries are running\n",
    )
    with running() as process:
        name_of(process)
        hint = anabranch("stop", "highst").stderr.splitlines()[-1]
        assert hint == "  hint: did you mean 'highest'? running are: highest"


def test_stop_refuses_what_other_queries_read() -> None:
    """Their names are told; a reader whose process has died does not count."""
    entries = RunningQueries()
    with running() as process:
        name_of(process)
        entry = entries.find("highest")
        assert entry is not None
        dead = replace(entry, name="dead", pid=process.pid, process="long ago")
        for other in (replace(entry, name="sums"), dead):
            entries.write(replace(other, reads=("/out/highest", "/in/bids")))
        done = anabranch("stop", "highest")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "QueryError: other queries read the results of 'highest': sums\n"
            "  anabranch stop highest: /out/highest\n"
            "  hint: stop them first, or stop it nevertheless with --force: they wait until it is "
            "started again\n"
        )
        assert process.poll() is None
        assert anabranch("stop", "highest", "--force").returncode == 0


def test_stop_does_not_wait_for_ever() -> None:
    with running("busy") as process:
        name_of(process)
        done = anabranch("stop", "highest", "--timeout", "0")
        assert done.returncode == 1
        assert done.stderr == "highest has not ended within 0 s; it has been asked to stop\n"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signals_stop_a_query_between_batches(number: signal.Signals, code: int) -> None:
    with running() as process:
        name_of(process)
        process.send_signal(number)
        assert process.wait(10) == code
        assert said(process) == (
            f"{number.name} received: highest stops after this batch\nhighest has stopped\n"
        )


def test_a_second_signal_breaks_a_batch_off() -> None:
    with running("busy") as process:
        name_of(process)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.readline().startswith("SIGINT received")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


def test_a_folder_that_cannot_be_written_does_not_disturb(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", "/dev/null/home")
    with running() as process:
        assert name_of(process) == "highest"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 143
        assert "note: 'anabranch ps' does not show this query: " in said(process)
