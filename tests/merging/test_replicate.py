"""Processes that are started again when they die."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.errors import PlanError
from anabranch.merging.replicate import Member, Replication, replicate

WAITS = "import time; time.sleep(600)"


def member(folder: Path, name: str, code: str) -> Member:
    return Member(name, [sys.executable, "-c", code], folder / f"{name}.log", folder / name)


def await_(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_who_dies_is_started_again_and_who_is_done_is_not(tmp_path: Path) -> None:
    said: list[str] = []
    each = {
        "one": member(tmp_path, "one", WAITS),
        "merge": member(tmp_path, "merge", "print('done')"),
    }
    with Replication(tmp_path, each, said.append) as replicas:
        assert replicas.await_end(30)
        process = each["one"].process
        assert process is not None
        os.killpg(process.pid, signal.SIGKILL)
        await_(lambda: each["one"].starts == 2 and each["one"].is_running)
        states = {state["name"]: state for state in replicas.status()}
        assert states["one"]["running"]
        assert states["one"]["starts"] == 2
        assert not states["merge"]["running"]
        assert each["merge"].starts == 1
    assert not each["one"].is_running
    assert said[0] == "merge has ended"
    assert "one has died (signal 9)" in said[1]
    assert (tmp_path / "merge.log").read_text() == "done\n"


def test_who_dies_at_once_waits_longer_and_longer(tmp_path: Path) -> None:
    broken = member(tmp_path, "broken", "raise SystemExit(3)")
    with Replication(tmp_path, {"broken": broken, "merge": member(tmp_path, "merge", WAITS)}):
        await_(lambda: broken.starts == 2)
        assert broken.code == 3
        assert broken.pause >= 1
        await_(lambda: broken.pause >= 2)


def test_copies_have_places_of_their_own(tmp_path: Path) -> None:
    script = tmp_path / "highest.sql"
    script.write_text("SELECT 1")
    made = replicate(script, tmp_path / "all", copies=2, trigger="1 second")
    assert list(made.members) == ["highest-1", "highest-2", "merge"]
    words = list(made.members["highest-2"].words)
    assert words[2:5] == ["anabranch", "run", str(script)]
    assert str(tmp_path / "all" / "copies" / "highest-2") in words
    assert "--canonical" in words
    assert words.count("1 second") == 1
    other = tmp_path / "other.sql"
    other.write_text("SELECT 1")
    made = replicate([script, other], tmp_path / "all")
    assert list(made.members) == ["highest-1", "other-2", "merge"]


def test_what_cannot_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"no script 'nothing\.sql'"):
        replicate("nothing.sql", tmp_path)
    with pytest.raises(PlanError, match="nothing to run"):
        replicate([], tmp_path)
