"""What is known of a stream from outside: where it is, what its columns mean, what it promises."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, final

import pyarrow as pa

from anabranch.model.clock import INTEGERS, MICROSECONDS, Clock
from anabranch.model.time import Duration, Time
from anabranch.runtime.sources.files.log_records import LogProperties

LatePolicy: TypeAlias = Literal["drop", "adjust", "fail", "revise"]
"""What happens to a row that breaks a promise: leave it out, clip it, stop the query, or revise.

With `revise` the part of its effect above the stable point enters the query, and the part below
becomes a revision of the results.
"""

FileForm: TypeAlias = Literal[
    "parquet", "json", "csv", "lines", "log", "copies", "delta", "archive"
]
"""Rows as Parquet, JSON lines or CSV; elements as JSON lines; a log folder of another query.

Rows or elements in a Delta table; the archive of a source of another query. With `copies` every
stream file and log folder is a copy of one stream, each in a form of its own.
"""


ARRIVAL: Final = "__arrival"
"""In place of a column with the start: rows get the time at which they come."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Which columns are times.

    Without `end` every row is a point. With `kind` rows are elements: `insert`, `adjust` (the end
    moves from `end` to `new_end`) or `stable` (the time is in `start`). Without `start` rows hold
    always: they are those of a relation. Where `keep` is false a row only tells the time.
    """

    start: str | None
    end: str | None = None
    new_end: str | None = None
    kind: str | None = None
    keep: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read for the times."""
        names = (self.start, self.end, self.new_end, self.kind, self.keep)
        return tuple(name for name in names if name is not None)


ELEMENTS = Shape(start="start", end="end", new_end="new_end", kind="kind")
"""The columns of an element table, as log folders and `to_df` have them."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """How far a source can be trusted.

    Attributes:
        source: The name of the source.
        delay: No row comes later than that behind the largest start seen; None: only explicit
            stable points count.
        late: What happens to rows that come after a promise all the same.
        clock: How the stream counts time.
        step: So many steps of the times in the data are one chronon of the stream.
        heartbeat: After so many microseconds without a row the source's time goes on with the
            clock; None: a silent source holds everyone.
        stamped: Rows got their time here: a clock that goes back makes none of them late.
        only_inserts: Elements are declared to be in order: an adjust breaks the declaration.
    """

    source: str
    delay: Duration | None = None
    late: LatePolicy = "drop"
    clock: Clock = INTEGERS
    step: int = 1
    heartbeat: Duration | None = None
    stamped: bool = False
    only_inserts: bool = False


MOST_ROWS: Final = 16_000_000
"""The rows of a source that go into one batch at the most, if nobody says otherwise."""


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a source goes into one batch: at most so many rows and files."""

    rows: int | None = MOST_ROWS
    files: int | None = None


USUAL: Final = Limits()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSpec:
    """Where the rows of a source are kept after they were read, and for how long.

    Attributes:
        path: The folder; None: in the checkpoint of the query.
        keep_age: Rows may go that are older than that, in chronons behind the stable point; None:
            no row is too old.
        keep_rows: Of more rows than that the oldest may go; None: any number stays.
    """

    path: str | None = None
    keep_age: Duration | None = None
    keep_rows: int | None = None

    def label(self, clock: Clock) -> str:
        """For people: `in the checkpoint, keeps 30d and 10000000 rows`."""
        bounds = [] if self.keep_age is None else [clock.format_duration(self.keep_age)]
        bounds += [] if self.keep_rows is None else [f"{self.keep_rows} rows"]
        return f"{self.path or 'in the checkpoint'}, keeps {' and '.join(bounds) or 'everything'}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgePoint:
    """How much of an archive counts: what was known after a revision, or at an instant, or is now.

    Attributes:
        revision: The last revision that counts; 0: none of them.
        instant: What became known up to this instant counts, in microseconds since 1970 (UTC).
    """

    revision: int | None = None
    instant: int | None = None

    @property
    def label(self) -> str:
        """For people: `after revision 3`, `at 2024-01-01T12:00:00`."""
        if self.instant is None:
            return "now" if self.revision is None else f"after revision {self.revision}"
        return f"at {MICROSECONDS.format(self.instant)}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """A stream in files.

    Attributes:
        promise: Its name and what it promises.
        path: A file, a folder or a pattern.
        form: What the files hold.
        schema: The payload columns.
        stored: All columns that count, times included, with the types they are read as.
        shape: Which columns are times; None for stream files, whose elements say so themselves.
        ends: The files that are there at the start are all; then the source promises forever.
        limits: How much goes into one batch; all that is there where rows have no order.
        ordered: Files, and rows in them, are in the order of the stream. In a table of elements
            that Spark or Delta has written they are not: what one look finds is one batch, whose
            stable points hold behind all of it.
        archive: Where its rows are kept to be read again; None: nowhere.
        known: The path is its archive, which is read as it was known then; None: it is no archive.
        within: Only elements that concern these instants are read, from the first on and before
            the second; None: all.
        relied_on: What plans rely on because log folders say it of themselves; None: nothing.
        weakens: A copy that promises less is read all the same: the merge goes over to a weaker
            case, and nothing behind it relies on more.
    """

    promise: Promise
    path: str
    form: FileForm
    schema: pa.Schema
    stored: pa.Schema
    shape: Shape | None
    ends: bool = False
    limits: Limits = USUAL
    ordered: bool = True
    archive: ArchiveSpec | None = None
    known: KnowledgePoint | None = None
    within: tuple[Time, Time] | None = None
    relied_on: LogProperties | None = None
    weakens: bool = False

    @property
    def name(self) -> str:
        """The name of the source."""
        return self.promise.source

    def is_read_like(self, other: FileSource) -> bool:
        """Whether two declarations mean the same rows; how many make a batch is no part of that."""
        return replace(self, limits=other.limits) == other

    @property
    def copies(self) -> bool:
        """Whether everything that matches the path is a copy of one stream."""
        return self.form == "copies"

    @property
    def stamped(self) -> bool:
        """Whether rows get the time of their arrival."""
        return self.promise.stamped

    @property
    def order_note(self) -> str | None:
        """What it means for lateness if rows have no order; None where they have one."""
        return None if self.ordered or self.ends else unordered_note(self.name)

    @property
    def archive_note(self) -> str | None:
        """Where its rows are kept, or from which archive they come; None where there is none."""
        if self.known is not None:
            return f"source '{self.name}': read from {self.path}, as known {self.known.label}"
        return archive_note(self.promise, self.archive)


def unordered_note(source: str) -> str:
    """What `explain` says of a source whose rows have no positions."""
    return (
        f"order of source '{source}': none; lateness is decided per batch, so the cut into batches "
        "decides which rows are late"
    )


def archive_note(promise: Promise, archive: ArchiveSpec | None) -> str | None:
    """What `explain` says of a source whose rows are kept."""
    if archive is None:
        return None
    revised = "; late rows revise results" if promise.late == "revise" else ""
    return f"archive of source '{promise.source}': {archive.label(promise.clock)}{revised}"
