"""Queries that run on this machine, as small files that other processes read."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import quote

_LONGEST: Final = 120


def state_folder() -> Path:
    """Where the command line keeps what outlives a process; only its owner may look."""
    home, state = os.environ.get("ANABRANCH_HOME"), os.environ.get("XDG_STATE_HOME")
    if home:
        folder = Path(home).expanduser()
    elif state:
        folder = Path(state) / "anabranch"
    else:
        folder = Path.home() / ".local" / "state" / "anabranch"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunningQuery:
    """What is known of a running query.

    Attributes:
        name: What `anabranch stop` takes.
        pid: Its process.
        process: When the process began: the number may be given to another one later.
        host: The machine; the folder may be shared with others.
        script: The script it comes from.
        to: Where its results go.
        started: When it started, in UTC.
        status: `running`, `stopping`, or what became of it.
        batch: The last batch that was committed.
        batch_at: When that was noticed.
        stable: The stable point of the output.
        rows_in: Rows read since the start.
        rows_out: Elements written since the start.
        late: Rows among those read that came too late.
        revised: Rows among those read that became revisions of settled results.
        failed_windows: Windows that modules gave no results for.
        rewritten: Files that were written again after they were read.
        lag: How far the output is behind the most advanced source, in chronons.
        state_rows: Rows that it remembers.
        state_bytes: The bytes of their files.
        batch_seconds: What the last batch took.
        log: The log folder that it writes, if it does.
        reads: The paths of its sources, among them logs of other queries.
        change: The change of the query that is in progress, in words; empty if there is none.
        queries: Those that share its process and checkpoint, by name, with their log folders.
        problems: The copies of a stream that it cannot read, and why.
    """

    name: str
    pid: int
    process: str
    host: str
    script: str
    to: str
    started: str
    status: str = "running"
    batch: int | None = None
    batch_at: str | None = None
    stable: int | str | None = None
    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    revised: int = 0
    failed_windows: int = 0
    rewritten: int = 0
    lag: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    batch_seconds: float | None = None
    log: str | None = None
    reads: tuple[str, ...] = ()
    change: str = ""
    queries: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def here(
        *,
        name: str,
        script: str,
        to: str,
        started: str,
        log: str | None = None,
        reads: tuple[str, ...] = (),
    ) -> RunningQuery:
        """An entry of this process."""
        pid = os.getpid()
        return RunningQuery(
            name=name,
            pid=pid,
            process=began(pid) or "",
            host=socket.gethostname(),
            script=script,
            to=to,
            started=started,
            log=log,
            reads=reads,
        )

    @property
    def is_alive(self) -> bool:
        """Whether its process is still there."""
        return began(self.pid) == self.process

    @property
    def mark(self) -> str:
        """What tells it from others that had its name before."""
        return f"{self.pid} {self.process} {self.started}"


@final
class RunningQueries:
    """The entries in a folder; whoever changes which ones there are holds a lock."""

    def __init__(self, folder: Path | None = None) -> None:
        """Look at the folder of this user, or at another one."""
        self._folder = (folder or state_folder()) / "queries"
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def claim(self, entry: RunningQuery) -> RunningQuery:
        """Add an entry; where a live query has its name, it gets a number behind it."""
        with self._locked():
            name, number = entry.name, 1
            while (other := self._read(self._path(name))) is not None and self._lives(other):
                number += 1
                name = f"{entry.name}_{number}"
            own = replace(entry, name=name)
            self._path(name, ".stop").unlink(missing_ok=True)
            self.write(own)
        return own

    def write(self, entry: RunningQuery) -> None:
        """Replace what is known of a query, at once."""
        self._write(self._path(entry.name), json.dumps(asdict(entry), ensure_ascii=False))

    def remove(self, entry: RunningQuery) -> None:
        """Forget a query, and that it was asked to stop."""
        with self._locked():
            stored = self._read(self._path(entry.name))
            if stored is not None and stored.mark == entry.mark:
                self._path(entry.name).unlink(missing_ok=True)
                self._path(entry.name, ".stop").unlink(missing_ok=True)

    def ask_to_stop(self, entry: RunningQuery) -> None:
        """Leave a request for the process of a query."""
        self._write(self._path(entry.name, ".stop"), entry.mark)

    def is_asked(self, entry: RunningQuery) -> bool:
        """Whether somebody asked the query to stop."""
        try:
            return self._path(entry.name, ".stop").read_text(encoding="utf-8") == entry.mark
        except OSError:
            return False

    def all(self) -> list[RunningQuery]:
        """The queries of this machine, by name, with those whose process has died."""
        found = (self._read(path) for path in sorted(self._folder.glob("*.json")))
        host = socket.gethostname()
        return [entry for entry in found if entry is not None and entry.host == host]

    def find(self, name: str) -> RunningQuery | None:
        """The query of this name, dead or alive."""
        return next((entry for entry in self.all() if entry.name == name), None)

    def _path(self, name: str, ending: str = ".json") -> Path:
        """A file for a name; slashes, leading dots and great lengths do no harm."""
        safe = quote(name, safe="").replace(".", "%2E")
        if len(safe) > _LONGEST:
            safe = safe[:_LONGEST] + hashlib.sha256(name.encode()).hexdigest()[:16]
        return self._folder / f"{safe}{ending}"

    def _read(self, path: Path) -> RunningQuery | None:
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            names = {field.name for field in fields(RunningQuery)}
            content["reads"] = tuple(content.get("reads", ()))
            return RunningQuery(**{key: value for key, value in content.items() if key in names})
        except (OSError, ValueError, TypeError, AttributeError):
            # Removed by now, or not ours.
            return None

    def _lives(self, entry: RunningQuery) -> bool:
        return entry.host != socket.gethostname() or entry.is_alive

    def _write(self, path: Path, text: str) -> None:
        # No other process writes this one: it has our number in its name.
        new = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        new.replace(path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def began(pid: int) -> str | None:
    """When a process began, in a form of its system; None if it is not there (any more)."""
    if Path("/proc/self/stat").exists():
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        # The name of the program stands in brackets, and may itself have some.
        after = stat[stat.rindex(")") + 2 :].split()
        return None if after[0] in "ZX" else after[19]
    shown = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip() or None
