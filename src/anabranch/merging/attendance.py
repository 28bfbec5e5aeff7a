"""Detach copies that have stopped for good, so that a merge need not wait to compare them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, final
from urllib.parse import quote

from anabranch.errors import AnabranchError
from anabranch.model.time import BEGINNING
from anabranch.runtime.query.run import Run
from anabranch.runtime.sources.files.copies import list_copies
from anabranch.runtime.sources.files.listing import is_log_folder
from anabranch.runtime.sources.files.log_folder import LogFolder

PAUSE: Final = 1.0
"""Seconds between two looks at the copies."""

_ABSENT: Final = "absent"
"""The folder beside the commands of a merge with a note for every copy that was detached here."""

Mark: TypeAlias = tuple[int, ...]
"""Something that changes when a copy is written to; empty if it is gone."""


@final
@dataclass(frozen=True, slots=True)
class _Sighting:
    """What a copy looked like, since when it does, and how far the merge was then."""

    mark: Mark
    since: float
    merged: int


class Attendance:
    """Which copies stand still while the merge goes on, and since when.

    A copy that is settled less far than the merged stream, and has not been written to for a while,
    is detached: until then the merge keeps everything that this copy might still contradict. When
    it is written to again it rejoins. A note in the checkpoint tells, after a restart of the merge,
    a copy that was detached here from one that a user has detached, which stays away.
    """

    def __init__(
        self,
        run: Run,
        pattern: str,
        source: str,
        after: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Watch the copies of a source that a pattern matches; `after` are seconds."""
        self._run = run
        self._pattern = pattern
        self._source = source
        self._after = after
        self._clock = clock
        self._seen: dict[str, _Sighting] = {}
        self._detached: set[str] = set()
        self._notes = run.control.folder.folder.child(_ABSENT)

    def look(self) -> None:
        """Detach who has stood still for long enough, and take back who has moved."""
        merged, now = int(self._run.stable), self._clock()
        there = list_copies(self._pattern)
        for name in self._run.control.copies().get(self._source, ()):
            mark = _mark(there.get(name))
            seen = self._seen.get(name)
            if seen is None or seen.mark != mark:
                seen = self._seen[name] = _Sighting(mark, now, merged)
            note = self._notes.read_json(_note(name))
            if note is not None:
                self._look_at_absent(name, tuple(note) != mark)
            elif (
                now - seen.since >= self._after and max(seen.merged, _reached(there, name)) < merged
            ):
                # The note comes first: a copy that is away without one would never be taken back.
                self._notes.write_json(_note(name), list(mark))
                self._look_at_absent(name, has_moved=False)

    def _look_at_absent(self, name: str, has_moved: bool) -> None:
        if has_moved:
            self._run.control.rejoin(self._source, name)
            self._notes.remove(_note(name))
            self._detached.discard(name)
        elif name not in self._detached:
            # Once more after a restart: the process may have died before it could say so.
            self._run.control.detach(self._source, name)
            self._detached.add(name)


def watch_attendance(
    run: Run, pattern: str, source: str, after: float, pause: float = PAUSE
) -> Callable[[], None]:
    """Look at the copies again and again.

    Returns:
        What ends it.
    """
    attendance, over = Attendance(run, pattern, source, after), threading.Event()

    def watch() -> None:
        while not over.wait(min(pause, max(after, 0.05))):
            # A log that is being replaced, or a folder that is away for a moment: look again.
            with suppress(OSError, AnabranchError):
                attendance.look()

    thread = threading.Thread(target=watch, name="anabranch-attendance", daemon=True)
    thread.start()

    def close() -> None:
        over.set()
        thread.join()

    return close


def _note(name: str) -> str:
    return f"{quote(name, safe='')}.json"


def _mark(path: Path | None) -> Mark:
    try:
        if path is None:
            return ()
        if is_log_folder(str(path)):
            stable = int(LogFolder(str(path)).stable())
            status = (path / "_log").stat()
            return stable, status.st_ino, status.st_mtime_ns
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _reached(there: Mapping[str, Path], name: str) -> int:
    """How far a copy is settled; of a stream file nobody knows without reading it."""
    path = there.get(name)
    if path is None or not is_log_folder(str(path)):
        return int(BEGINNING)
    return int(LogFolder(str(path)).stable())
