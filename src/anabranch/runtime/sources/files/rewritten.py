"""Notice files that were written again after they were read.

A query reads a file once. Who corrects yesterday's file in place would wait for ever for results
that follow, so it is told, once per file. Nothing is read twice for it:

- a file that is done with (Parquet, CSV, compressed text) has other bytes or another time than
  when it was planned;
- a file of lines may grow. It was written again if it is shorter than what was read of it, if the
  bytes in front of the position are not those that were there, or if it has the same length and
  another time for a while (a writer that appends changes the time first, then the length).

Files that may still bring something are listed before every batch, with their sizes and times. Of
those that are done with only the names are, so they are looked at in turn, for a hundredth of the
time that has gone by: about half a minute for a round of 100,000 files on a local disk.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from time import monotonic_ns, time_ns
from typing import Final, final

from anabranch.runtime.messages.counters import RewrittenFile
from anabranch.runtime.sources.files.listing import is_own_file
from anabranch.runtime.sources.files.next_units import ListedFile, Listing
from anabranch.runtime.sources.files.reader import WHOLE
from anabranch.runtime.sources.files.units import START, Position, Unit
from anabranch.runtime.sources.spec import FileSource

TOLD: Final = -1
"""The size in a position of a file of which it was told that it was written again."""

MOST_TOLD: Final = 100
"""Of so many files a batch tells at the most, per source; the next one tells of others."""

TAIL_BYTES: Final = 64
"""A file of lines is known again by so many bytes in front of the position."""

SETTLED: Final = 1_000_000_000
"""Nanoseconds after its last change, nobody is writing to a file any more."""

PAUSE: Final = 100_000_000
"""Nanoseconds between two looks at files that are done with."""

SHARE: Final = 100
"""A look may take one part in so many of the time since the last one."""

GROUP: Final = 64
"""Files that are looked at in any case, and between two looks at the clock."""

_FORMS: Final = ("parquet", "csv", "json", "lines")


@final
@dataclass(frozen=True, slots=True)
class Rewritten:
    """What is told of a file, and its position from now on: it is told once."""

    file: RewrittenFile
    after: Position


@final
@dataclass(slots=True)
class FileWatch:
    """The files of a source that were read.

    Attributes:
        source: The source.
        clock: Nanoseconds that never go back.
        now: Nanoseconds since 1970, as files have them.
    """

    source: FileSource
    clock: Callable[[], int] = monotonic_ns
    now: Callable[[], int] = time_ns
    _waiting: list[str] = field(default_factory=list)
    _looked_at: int | None = None
    _compared: Listing | None = None

    @property
    def is_on(self) -> bool:
        """Whether there is something to watch: other forms have a log that says what changed."""
        return self.source.form in _FORMS and not is_own_file(self.source.path)

    def look(self, listing: Listing, positions: Mapping[str, Position]) -> dict[str, Rewritten]:
        """The files that were written again, by path: some of those that were listed, or in turn.

        Args:
            listing: Files as they were listed.
            positions: How far files are planned, and what they were like then.
        """
        if not self.is_on:
            return {}
        found: dict[str, Rewritten] = {}
        is_new = listing is not self._compared
        for listed in listing:
            at = positions.get(str(listed.path), START)
            # A listing that stays is compared once with what is done.
            if at.size is not None and (is_new or at.offset != WHOLE):
                self._compare(listed, at, found)
        if len(found) < MOST_TOLD:
            self._compared = listing
        self._look_in_turn(positions, found)
        return found

    def look_at_all(self, positions: Mapping[str, Position]) -> dict[str, Rewritten]:
        """The files that were written again among all that were read."""
        found: dict[str, Rewritten] = {}
        if self.is_on:
            self._look_at(positions, positions, found)
        return found

    def signed(
        self, units: Sequence[Unit], listing: Listing, positions: Mapping[str, Position]
    ) -> dict[str, Position]:
        """How far files are planned with some units, and what these files are like."""
        after = {unit.file: unit.after for unit in units}
        if not self.is_on:
            return after
        for listed in listing:
            path = str(listed.path)
            if path not in after:
                continue
            at = after[path]
            if positions.get(path, START).size == TOLD:
                after[path] = replace(at, size=TOLD)
                continue
            tail = None if not self._has_lines(at) else _tail(path, at.offset)
            after[path] = replace(at, size=listed.size, modified=listed.modified, tail=tail)
        return after

    def _look_in_turn(self, positions: Mapping[str, Position], found: dict[str, Rewritten]) -> None:
        """Look at the next files that are done with, for as long as that may take."""
        now = self.clock()
        since = PAUSE if self._looked_at is None else now - self._looked_at
        if since < PAUSE:
            return
        self._looked_at = now
        until = now + since // SHARE
        if not self._waiting:
            # From the end, where the newest are: it is yesterday's file that is corrected.
            self._waiting = [path for path, at in positions.items() if _is_done(at)]
        while self._waiting and len(found) < MOST_TOLD:
            group = self._waiting[-GROUP:]
            del self._waiting[-GROUP:]
            self._look_at(reversed(group), positions, found)
            if self.clock() >= until:
                break

    def _look_at(
        self,
        paths: Iterable[str],
        positions: Mapping[str, Position],
        found: dict[str, Rewritten],
    ) -> None:
        for path in paths:
            at = positions.get(path, START)
            if at.size is None or at.size == TOLD or path in found:
                continue
            try:
                # Without a Path, which would take longer than the rest.
                seen = os.stat(path)  # noqa: PTH116
            except OSError:
                # What was read may be removed.
                continue
            if (seen.st_size, seen.st_mtime_ns) != (at.size, at.modified):
                self._compare(ListedFile(Path(path), seen.st_size, seen.st_mtime_ns), at, found)

    def _compare(self, listed: ListedFile, at: Position, found: dict[str, Rewritten]) -> None:
        if len(found) >= MOST_TOLD or at.size is None or at.size == TOLD:
            return
        if (listed.size, listed.modified) == (at.size, at.modified):
            return
        path = str(listed.path)
        after = replace(at, size=TOLD, modified=None, tail=None)
        if self._has_lines(at):
            is_other = at.tail is not None and _tail(path, at.offset) != at.tail
            if listed.size < at.offset or is_other:
                # What follows the position may be half a line.
                after = replace(after, offset=WHOLE)
            elif listed.size > at.size or self.now() - (listed.modified or 0) < SETTLED:
                return
        found[path] = Rewritten(
            RewrittenFile(
                file=path,
                bytes_before=at.size,
                bytes=listed.size,
                modified=_time(listed.modified or 0),
            ),
            after,
        )

    def _has_lines(self, at: Position) -> bool:
        """Whether a position is between two lines of a file that may grow."""
        return self.source.form in ("json", "lines") and at.offset != WHOLE


def _is_done(at: Position) -> bool:
    return at.offset == WHOLE and at.size is not None and at.size != TOLD


def _tail(path: str, offset: int) -> int | None:
    """A checksum of the bytes in front of an offset; None if they are not there."""
    length = min(offset, TAIL_BYTES)
    try:
        with Path(path).open("rb", buffering=0) as file:
            data = os.pread(file.fileno(), length, offset - length)
    except OSError:
        return None
    return zlib.crc32(data) if len(data) == length else None


def _time(nanoseconds: int) -> str:
    moment = datetime.fromtimestamp(nanoseconds // 1_000_000_000, timezone.utc)
    return moment.isoformat().replace("+00:00", "Z")


def rewritten_files(positions: Mapping[str, Mapping[str, Position]]) -> dict[str, list[str]]:
    """By source the files of which it was told that they were written again."""
    found = {
        name: [path for path, at in files.items() if at.size == TOLD]
        for name, files in positions.items()
    }
    return {name: paths for name, paths in found.items() if paths}
