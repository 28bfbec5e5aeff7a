"""The two kinds of files in the folder `_log` of a log: what the stream is, and what a batch is."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Final, final

import pyarrow as pa

from anabranch.errors import EngineError, StreamError
from anabranch.model.clock import INTEGERS, MICROSECONDS, Clock
from anabranch.model.record import OMITTED, record
from anabranch.runtime.messages.heads import LogFile

PLAIN: Final = 1
"""The format of a file without revisions and without a base."""

REVISED: Final = 2
"""The format of a file that readers of the first one must not read."""

_HINT: Final = "restore the log from a copy, or run the query again into a new folder"
_USUAL: Final = -1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LogRevision:
    """A revision of the stream, as an entry lists it.

    Attributes:
        number: Revisions of a stream count up from 1.
        first: No snapshot before this instant changes.
        last: No snapshot from this instant on changes.
        file: Its changes, as an element file.
    """

    number: int
    first: int
    last: int
    file: LogFile


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LogBase:
    """With what a log begins whose first entries have been removed.

    Attributes:
        batch: Entries up to this one do not count any more, whether they are still there or not.
        stable: The stable point behind them.
        files: The events of these entries that end at this stable point or later.
    """

    batch: int
    stable: int
    files: tuple[LogFile, ...] = ()

    @property
    def rows(self) -> int:
        """How many events it has."""
        return sum(file.rows for file in self.files)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LogAbout:
    """What a log is, as it is in `_log/stream.json`.

    Attributes:
        format: The version of the file.
        query: The identity of the query that writes the log.
        timestamps: Whether its times are microseconds since 1970.
        chronon: How long a chronon is, in microseconds, where that is not the usual length.
        schema: The payload columns, as base64 of an Arrow schema.
        home: The checkpoint of the query.
        since: It has all events that end there or later; None: all events.
        revised: The number of the newest revision before its beginning.
        base: With what it begins, where earlier entries have been removed.
        made: Tells a copy that was begun from another one from its predecessors of the same name.
    """

    format: int = PLAIN
    query: str
    timestamps: bool
    chronon: int | None = field(default=_USUAL, metadata=OMITTED)
    schema: str
    home: str = field(default="", metadata=OMITTED)
    since: int | None = field(default=None, metadata=OMITTED)
    revised: int = field(default=0, metadata=OMITTED)
    base: LogBase | None = field(default=None, metadata=OMITTED)
    made: str = field(default="", metadata=OMITTED)

    @staticmethod
    def of(
        schema: pa.Schema,
        *,
        query: str,
        clock: Clock,
        since: int | None,
        home: str,
        revised: int = 0,
        made: str = "",
    ) -> LogAbout:
        """What a new log says of itself."""
        return LogAbout(
            query=query,
            timestamps=clock.timestamps,
            chronon=_USUAL if clock.is_usual else clock.chronon,
            schema=base64.b64encode(schema.serialize()).decode(),
            home=home,
            since=since,
            revised=revised,
            made=made,
        )

    @property
    def payload(self) -> pa.Schema:
        """The payload columns."""
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.schema)))

    @property
    def clock(self) -> Clock:
        """How the log counts time."""
        usual = MICROSECONDS if self.timestamps else INTEGERS
        return usual if self.chronon == _USUAL else Clock(self.chronon, usual.timestamps)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """What a batch has put out, as it is in `_log/<batch>.json`.

    Attributes:
        format: The version of the file.
        batch: The number of the batch.
        stable: The stable point behind it.
        files: Its element files, in their order.
        revisions: The revisions that came with it. They are in front of its elements.
    """

    format: int = PLAIN
    batch: int
    stable: int
    files: tuple[LogFile, ...] = ()
    revisions: tuple[LogRevision, ...] = field(default=(), metadata=OMITTED)

    @property
    def every_file(self) -> tuple[LogFile, ...]:
        """Its element files, and those of its revisions."""
        return (*(revision.file for revision in self.revisions), *self.files)

    @property
    def rows(self) -> int:
        """How many elements it has, stable points and revisions aside."""
        return sum(file.rows for file in self.files)


def log_about(content: object, where: str) -> LogAbout:
    """What a log is, out of the content of its file.

    Raises:
        StreamError: A newer version has written it.
        EngineError: It is something else.
    """
    _refuse_newer(content, where)
    about = record(LogAbout, content, where=where, hint=_HINT)
    try:
        _ = about.payload
    except (ValueError, pa.ArrowException) as problem:
        what = "a LogAbout cannot be read: 'schema' is not an Arrow schema"
        raise EngineError(what, where=f"{where}: {str(problem)[:120]}", hint=_HINT) from None
    return about


def log_entry(content: object, where: str) -> LogEntry:
    """An entry of a log, out of the content of its file.

    Raises:
        StreamError: A newer version has written it.
        EngineError: It is something else.
    """
    _refuse_newer(content, where)
    return record(LogEntry, content, where=where, hint=_HINT)


def _refuse_newer(content: object, where: str) -> None:
    """Refuse a file that may say what this version does not understand."""
    found = content.get("format") if isinstance(content, dict) else None
    if isinstance(found, int) and found > REVISED:
        raise StreamError(
            f"the log has format {found}, and this version reads formats up to {REVISED}",
            where=where,
            hint="read the log with the version of Anabranch that wrote it, or a later one",
        )
