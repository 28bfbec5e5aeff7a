"""The two kinds of files in the folder `_log` of a log: what the stream is, and what a batch is."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, final

import pyarrow as pa

from anabranch.algebra.analysis.properties import Order, Properties
from anabranch.errors import EngineError, StreamError
from anabranch.model.clock import INTEGERS, MICROSECONDS, Clock
from anabranch.model.record import OMITTED, record
from anabranch.runtime.messages.heads import LogFile

if TYPE_CHECKING:
    # Whoever reads a log knows no operators.
    from anabranch.algebra.node import Node

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
class LogProperties:
    """What is known of the stream in a log from the plan that writes it, for whoever reads it.

    Attributes:
        insert_only: Nothing is ever adjusted.
        only_points: Every lifetime is one chronon long.
        no_duplicates: No payload holds twice at one instant.
        keyed: No two events have the same payload and start.
        order: Batches come by start: `start`, `strict` if no two starts are equal, or `none`.
        ties: Elements of one start can be put in one order in every copy of the stream.
        cut: Lifetimes end where the stable point stood, and go on in another event.
    """

    insert_only: bool = field(default=False, metadata=OMITTED)
    only_points: bool = field(default=False, metadata=OMITTED)
    no_duplicates: bool = field(default=False, metadata=OMITTED)
    keyed: bool = field(default=False, metadata=OMITTED)
    order: Order = field(default="none", metadata=OMITTED)
    ties: bool = field(default=False, metadata=OMITTED)
    cut: bool = field(default=False, metadata=OMITTED)

    @staticmethod
    def of(node: Node, emission: str) -> LogProperties:
        """What a query writes, if that much of its results leaves."""
        if emission == "watermark":
            # Results leave when their windows have ended, some of them not at all.
            return LogProperties()
        known = node.properties.emitted(emission)
        return LogProperties(
            insert_only=known.insert_only,
            only_points=known.only_points,
            no_duplicates=known.no_duplicates,
            keyed=known.keyed,
            order=known.order,
            ties=known.ties and known.insert_only,
            cut=emission == "final" and not known.only_points,
        )

    @property
    def known(self) -> Properties:
        """As plans write it."""
        return Properties(
            insert_only=self.insert_only,
            only_points=self.only_points,
            no_duplicates=self.no_duplicates,
            keyed=self.keyed,
            order=self.order,
            ties=self.ties,
        )

    @property
    def is_keyed(self) -> bool:
        """Whether no two events have the same payload and start, by itself or by their order."""
        return self.keyed or (self.insert_only and self.order == "strict")

    def meet(self, other: LogProperties) -> LogProperties:
        """What holds of both streams."""
        both = self.known.meet(other.known)
        return LogProperties(
            insert_only=both.insert_only,
            only_points=both.only_points,
            no_duplicates=both.no_duplicates,
            keyed=both.keyed,
            order=both.order,
            ties=both.ties,
            cut=self.cut or other.cut,
        )

    def lacks(self, wanted: LogProperties) -> str:
        """What a stream that is relied on does not promise; nothing: it promises all of it."""
        found = {
            "may adjust events": wanted.insert_only and not self.insert_only,
            "may have lifetimes longer than a chronon": wanted.only_points and not self.only_points,
            "may have rows twice": wanted.no_duplicates and not self.no_duplicates,
            "may have two events of one payload and start": wanted.keyed and not self.keyed,
            "is not in order of start": wanted.order != "none" and self.order == "none",
            "may have two events of one start": wanted.order == "strict" and self.order == "start",
            "may have ties in any order": wanted.ties and not self.ties,
            "has lifetimes that are cut at stable points": self.cut and not wanted.cut,
        }
        return next((what for what, is_so in found.items() if is_so), "")


NOTHING_KNOWN: Final = LogProperties()


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
        properties: What its plan says of the stream; None: that was not noted.
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
    properties: LogProperties | None = field(default=None, metadata=OMITTED)

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
        properties: LogProperties | None = None,
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
            properties=properties,
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
