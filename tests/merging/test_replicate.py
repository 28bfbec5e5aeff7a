"""Processes that are started again when they die."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from anabranch.errors import PlanError
from anabranch.merging.replicate import Member, Replication, replicate
from anabranch.model.time import FOREVER
from anabranch.runtime.sources.files.log_folder import LogFolder

WAITS = "import time; time.sleep(600)"


def member(folder: Path, name: str, code: str) -> Member:
    return Member(name, [sys.executable, "-c", code], folder / f"{name}.log", folder / name)


def niceness(member: Member) -> int | None:
    """How far a process gives way to others; None where there is no process."""
    return os.getpriority(os.PRIO_PROCESS, member.process.pid) if member.process else None


def group_niceness(member: Member) -> int | None:
    """The same of its session, where the system shares out time among these."""
    group = Path(f"/proc/{member.process.pid}/autogroup") if member.process else None
    if group is None or not group.exists():
        return None
    return int(group.read_text().rsplit(maxsplit=1)[-1])


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


def test_a_copy_that_comes_back_gives_way_until_it_has_written(tmp_path: Path) -> None:
    one, merge = member(tmp_path, "one", WAITS), member(tmp_path, "merge", WAITS)
    merge.goes_first = True
    with Replication(tmp_path, {"one": one, "merge": merge}):
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert [niceness(each) for each in (one, merge)] == [own, own]
        for each in (one, merge):
            assert each.process is not None
            os.killpg(each.process.pid, signal.SIGKILL)
        await_(lambda: one.starts == merge.starts == 2)
        await_(lambda: [niceness(each) for each in (one, merge)] == [min(own + 10, 19), own])
        await_(lambda: group_niceness(one) in (None, 10))
        LogFolder(str(one.output)).commit(1, 5, [])
        await_(lambda: one.behind is None and group_niceness(one) in (None, 0))
        # Only some users may take back what they gave.
        if os.geteuid() == 0:
            await_(lambda: niceness(one) == own)


def test_on_a_busy_machine_a_copy_gives_way_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.merging.replicate._GIVES_WAY", 0.5)
    one, merge = member(tmp_path, "one", WAITS), member(tmp_path, "merge", WAITS)
    with Replication(tmp_path, {"one": one, "merge": merge}):
        assert one.process is not None
        os.killpg(one.process.pid, signal.SIGKILL)
        await_(lambda: one.starts == 2 and one.is_running)
        await_(lambda: one.behind is None)


def test_it_ends_when_the_merged_stream_is_complete(tmp_path: Path) -> None:
    each = {name: member(tmp_path, name, WAITS) for name in ("one", "merge")}
    with Replication(tmp_path, each) as replicas:
        assert not replicas.await_end(0.2)
        replicas.merged.commit(1, int(FOREVER) - 1, [])
        assert not replicas.await_end(0.2)
        replicas.merged.commit(2, FOREVER, [])
        assert replicas.await_end(30)


def test_nobody_outlives_who_started_them(tmp_path: Path) -> None:
    line = tmp_path / "line"
    os.mkfifo(line)
    code = f"""
        import time
        from anabranch.cli.queries.running import end_with_input
        end_with_input()
        with open({str(line)!r}, "w") as line:
            print("here", file=line, flush=True)
            time.sleep(600)
    """
    starts = f"""
        import time
        from pathlib import Path
        from tests.merging.test_replicate import Replication, member
        folder = Path({str(tmp_path)!r})
        Replication(folder, {{"merge": member(folder, "merge", {dedent(code)!r})}}).start()
        time.sleep(600)
    """
    words = [sys.executable, "-c", dedent(starts)]
    known = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, env=known) as it, line.open() as other_end:
        assert other_end.readline() == "here\n"
        it.kill()
        # It ends with the process that held the other end.
        assert select.select([other_end], [], [], 30)[0]
        assert other_end.read() == ""


def test_copies_have_places_of_their_own(tmp_path: Path) -> None:
    script = tmp_path / "highest.sql"
    script.write_text("SELECT 1")
    made = replicate(script, tmp_path / "all", copies=2, trigger="1 second")
    assert list(made.members) == ["highest-1", "highest-2", "merge"]
    words = list(made.members["highest-2"].words)
    assert words[2:6] == ["anabranch", "--until-input-ends", "run", str(script)]
    assert str(tmp_path / "all" / "copies" / "highest-2") in words
    assert "--canonical" in words
    assert words.count("1 second") == 1
    assert "--reoptimize" not in words
    other = tmp_path / "other.sql"
    other.write_text("SELECT 1")
    made = replicate([script, other], tmp_path / "all")
    assert list(made.members) == ["highest-1", "other-2", "merge"]
    made = replicate(script, tmp_path / "all", reoptimize="auto")
    for name, member in made.members.items():
        assert (member.words[-2:] == ["--reoptimize", "auto"]) == (name != "merge")


def test_what_cannot_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"no script 'nothing\.sql'"):
        replicate("nothing.sql", tmp_path)
    with pytest.raises(PlanError, match="nothing to run"):
        replicate([], tmp_path)
    wrong: Any = "sometimes"
    with pytest.raises(PlanError, match="reoptimize must be one of off, auto"):
        replicate("nothing.sql", tmp_path, reoptimize=wrong)
