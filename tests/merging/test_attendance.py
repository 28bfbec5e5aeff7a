"""Copies that stand still are detached, and rejoin when they move."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from anabranch.merging.attendance import Attendance
from anabranch.model.clock import INTEGERS
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.control import Control, ControlFolder
from anabranch.runtime.store.folder import Folder

SCHEMA = pa.schema([("a", pa.int64())])


class Merged:
    """A merge that is as far as somebody says, with a real control folder."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        commands = ControlFolder(Folder.at(str(folder / "control")))
        copies = {"copies": names}
        self.control = Control(commands, {"copies": True}, lambda: copies)
        self.stable = 0

    def commands(self) -> list[str]:
        folder = self.control.folder
        return [f"{n.content['verb']} {n.content['copy']}" for n in folder.notes()]


def test_who_stands_still_is_detached_until_it_moves(tmp_path: Path) -> None:
    logs = {name: LogFolder(str(tmp_path / "copies" / name)) for name in ("a", "b")}
    for log in logs.values():
        log.create(SCHEMA, query="q", clock=INTEGERS)
        log.commit(0, 10, [])
    merged, at = Merged(tmp_path, ["a", "b", "gone"]), SimpleNamespace(now=0.0)
    merged.stable = 10
    run: Any = merged
    begin = partial(
        Attendance, run, str(tmp_path / "copies"), "copies", 60.0, lambda: float(at.now)
    )
    watch = begin()
    watch.look()
    at.now = 100.0
    watch.look()
    # Nobody goes on, so nobody is behind.
    assert merged.commands() == []
    logs["a"].commit(1, 20, [])
    merged.stable = 20
    watch.look()
    assert merged.commands() == ["detach b", "detach gone"]
    at.now = 200.0
    watch.look()
    assert merged.commands() == ["detach b", "detach gone"]
    # Another process says so again, for the first one may have died before it did.
    watch = begin()
    watch.look()
    assert merged.commands() == ["detach b", "detach gone"] * 2
    logs["b"].commit(1, 15, [])
    watch.look()
    assert merged.commands()[4:] == ["rejoin b"]
    watch.look()
    assert merged.commands()[4:] == ["rejoin b"]
    at.now, merged.stable = 300.0, 30
    logs["a"].commit(2, 30, [])
    watch.look()
    assert merged.commands()[5:] == ["detach b"]


def test_who_was_detached_by_a_user_stays_away(tmp_path: Path) -> None:
    log = LogFolder(str(tmp_path / "copies" / "a"))
    log.create(SCHEMA, query="q", clock=INTEGERS)
    merged = Merged(tmp_path, ["a"])
    run: Any = merged
    watch = Attendance(run, str(tmp_path / "copies"), "copies", 60.0, lambda: 0.0)
    merged.control.detach("copies", "a")
    log.commit(0, 10, [])
    watch.look()
    assert merged.commands() == ["detach a"]
