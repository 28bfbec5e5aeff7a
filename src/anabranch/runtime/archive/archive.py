"""Everything that came from one source, by batch and by time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from anabranch.algebra.analysis.spans import EVERYTHING, Span
from anabranch.errors import PlanError, StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.clock import Clock
from anabranch.model.record import plain
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time, subtract_saturating
from anabranch.runtime.archive.bucket import read_bucket
from anabranch.runtime.archive.corrections import Correction, CorrectionLog
from anabranch.runtime.archive.cut_summary import CutSummaries
from anabranch.runtime.archive.narrowing import Wanted, having, narrowed, narrowing
from anabranch.runtime.archive.stats import ArchiveStats
from anabranch.runtime.sources.archived.about import (
    ABOUT_ARCHIVE,
    INDEX,
    ArchiveAbout,
    read_about,
)
from anabranch.runtime.sources.archived.index import ArchiveIndex
from anabranch.runtime.sources.archived.pieces import ArchivedBatch, Piece, inside
from anabranch.runtime.sources.files.reader import FileSplit, read_split
from anabranch.runtime.sources.spec import ArchiveSpec, FileSource
from anabranch.runtime.store.folder import Folder


class Archive:
    """The rows of one source: where they can be read again, or copies of them.

    An archive is complete for all instants from `oldest` on: every row that came and holds there
    is in it. It is added to by one process; others may read meanwhile.
    """

    def __init__(
        self, folder: Folder, source: FileSource | None, spec: ArchiveSpec | None = None
    ) -> None:
        """Take up an archive, or begin one with `create`.

        Args:
            folder: Where it is.
            source: The source whose files it refers to; None where it has copies.
            spec: What it keeps; None: what it said when it was created.
        """
        self.folder = folder
        self.index: ArchiveIndex = ArchiveIndex(folder.child(INDEX))
        self.summaries: CutSummaries = CutSummaries(folder)
        self._corrected = CorrectionLog(folder)
        self._source = source
        self._spec = spec
        self._known_about: ArchiveAbout | None = None

    def create(
        self, source: str, schema: pa.Schema, clock: Clock, *, copied: bool, query: str = ""
    ) -> None:
        """Say what the archive is; one that is there already stays as it is.

        Args:
            source: The name of the source.
            schema: Its payload columns.
            clock: How it counts time.
            copied: Whether the archive holds the rows themselves.
            query: The identity of the query that writes it. Two queries number their batches each
                for itself, so they cannot write one archive.

        Raises:
            PlanError: There is the archive of another query or stream, or something else.
        """
        new = ArchiveAbout.of(source, schema, clock, copied=copied, query=query, spec=self._spec)
        old = read_about(self.folder)
        if old is None:
            self._refuse_foreign()
        elif old.query != query:
            raise PlanError(
                "the folder is the archive of another query",
                where=f"source '{source}': {self.folder.path}",
                hint="choose another folder, or continue with the checkpoint of that query; other "
                "queries may read the archive as a source",
            )
        elif replace(old, keep_age=new.keep_age, keep_rows=new.keep_rows) != new:
            raise PlanError(
                "the folder is the archive of another stream",
                where=f"source '{source}': {self.folder.path} has '{old.source}' with the columns "
                f"{', '.join(old.payload.names)}",
                hint="choose another folder for the archive",
            )
        if old != new:
            self.folder.write_json(ABOUT_ARCHIVE, plain(new), seal=False)
        self._known_about = new
        self.folder.sweep()
        self.index.folder.sweep()

    def stats(self) -> ArchiveStats:
        """How much there is, of which times, and what it takes."""
        entries = self.index.entries()
        pieces = [piece for entry in entries for piece in entry.pieces if piece.rows]
        cut, about = self.index.cut(), self.about()
        age, rows = self.keeps()
        sizes = self.index.sizes()
        corrections = self._corrected.index.entries()
        apart = [piece for piece in self._corrected.pieces() if not piece.is_late]
        return ArchiveStats(
            source=about.source,
            path=self.folder.path,
            copied=about.copied,
            batches=len(entries),
            pieces=len(pieces),
            rows=sum(piece.rows for piece in pieces),
            first=Time(min((piece.first for piece in pieces), default=FOREVER)),
            last=Time(max((piece.last for piece in pieces), default=BEGINNING)),
            oldest=Time(cut.oldest),
            promised=Time(max((entry.promised for entry in entries), default=BEGINNING)),
            bytes=sum(self.size(piece) or 0 for piece in (*pieces, *apart)),
            corrections=len(corrections),
            index_files=len(sizes),
            index_bytes=sum(sizes),
            keep_age=age,
            keep_rows=rows,
        )

    def size(self, piece: Piece) -> int | None:
        """The bytes of a file of the archive; None if it is one of the source."""
        if not _is_bucket(piece.split):
            return None
        *parents, name = piece.split.path.split("/")
        folder = self.folder
        for parent in parents:
            folder = folder.child(parent)
        opened = folder.open(name)
        return 0 if opened is None else opened[1]

    @property
    def source(self) -> FileSource | None:
        """The source whose files it refers to; None where it has copies."""
        return self._source

    @property
    def has_plain_rows(self) -> bool:
        """Whether its rows stay in the files of the source, and none of them moves an end."""
        source = self._source
        return source is not None and source.shape is not None and source.shape.kind is None

    def about(self) -> ArchiveAbout:
        """What the archive is.

        Raises:
            StreamError: There is none.
        """
        if self._known_about is None:
            self._known_about = read_about(self.folder)
        if self._known_about is None:
            raise StreamError(
                "not an archive",
                where=self.folder.path,
                hint="an archive is what a query writes for a source with ARCHIVE or LATE REVISE",
            )
        return self._known_about

    def add(self, entry: ArchivedBatch) -> None:
        """Make the pieces of a batch part of the archive; adding them again changes nothing.

        Pieces that are older than what the archive keeps are left out.
        """
        cut = self.index.cut()
        if any(cut.has(entry.batch, piece) for piece in entry.pieces):
            gone = [piece for piece in entry.pieces if cut.has(entry.batch, piece)]
            kept = tuple(piece for piece in entry.pieces if piece not in gone)
            entry = replace(entry, pieces=kept)
            about = self.summaries.about()
            if about is not None:
                self.summaries.keep_late(entry.batch, self._rows_of(gone, about.columns))
            self._remove(gone)
        self.index.add(entry)

    def add_correction(
        self, revision: int, known: int, rows: EventBatch, known_at: int = 0
    ) -> None:
        """Record what was learnt about earlier rows; recording it again changes nothing.

        Args:
            revision: Its number; corrections are recorded in the order of their numbers.
            known: The batch after which it became known.
            rows: Inserts of rows that were missing, withdrawals of rows that were wrong.
            known_at: When it became known, in microseconds since 1970.
        """
        self._corrected.add(revision, known, rows, known_at, clock=self.about().clock)

    def add_late(self, revision: int, entry: ArchivedBatch) -> None:
        """Record the late rows of a batch as a correction; recording it again changes nothing.

        They stay among the rows of their batch. As of an earlier revision they do not count.

        Args:
            revision: Its number.
            entry: The batch, as it was added.
        """
        cut = self.index.cut()
        kept = tuple(piece for piece in entry.pieces if not cut.has(entry.batch, piece))
        self._corrected.add_late(revision, replace(entry, pieces=kept))

    def corrections(
        self, upto_revision: int | None = None, span: Span = EVERYTHING
    ) -> list[Correction]:
        """The corrections up to a number, in order; of a span only the rows that hold in it."""
        return self._corrected.read(self.about().payload, upto_revision, span)

    def pieces(self, span: Span = EVERYTHING, upto: int | None = None) -> list[tuple[int, Piece]]:
        """The pieces with rows that may hold in a span, each with its batch, as they arrived."""
        return self.index.pieces(span, upto)

    def read(
        self,
        span: Span = EVERYTHING,
        upto: int | None = None,
        columns: Sequence[str] | None = None,
        keep: Wanted | None = None,
    ) -> Iterator[EventBatch]:
        """The rows that hold, or held before they moved, in a span, as they arrived.

        Args:
            span: The instants; rows are not clipped to them.
            upto: Only batches up to this one.
            columns: The payload columns; None: all of them.
            keep: By column the values of which a row must have one.

        Raises:
            StreamError: A file is gone or damaged.
        """
        for _, piece in self.pieces(span, upto):
            yield from self.read_piece(piece, span, columns, keep)

    def read_piece(
        self,
        piece: Piece,
        span: Span = EVERYTHING,
        columns: Sequence[str] | None = None,
        keep: Wanted | None = None,
    ) -> Iterator[EventBatch]:
        """The rows of one piece that hold in a span."""
        if not piece.rows:
            return
        wanted = keep or {}
        every = self._schema()
        names = [*(every.names if columns is None else columns)]
        needed = [*dict.fromkeys([*names, *wanted])]
        for batch in self._rows(piece.split, needed, every, span, wanted):
            rows = having(inside(batch, span), wanted)
            if len(rows):
                if names != needed:
                    rows = rows.with_payload(rows.payload.select(names))
                yield rows.with_stable(BEGINNING)

    def _rows(
        self,
        split: FileSplit,
        columns: Sequence[str],
        every: pa.Schema,
        span: Span,
        wanted: Wanted,
    ) -> Iterator[EventBatch]:
        if _is_bucket(split):
            schema = pa.schema([every.field(name) for name in columns])
            yield from read_bucket(
                self.folder, split.path, schema, every=every, span=span, wanted=wanted
            )
            return
        if self._source is None:
            raise StreamError(
                "the archive refers to the files of its source, and has no rows of its own",
                where=self.folder.path,
                hint="read the source itself, or let the query copy its rows: ARCHIVE '<path>'",
            )
        narrow = narrowing(self._source, split, span, wanted)
        for part in narrowed(self._source, split, span, wanted):
            for arrivals in read_split(self._source, part, columns, narrow):
                yield arrivals.batch

    def oldest(self) -> Time:
        """From this instant on the archive is complete; BEGINNING if nothing was ever cut."""
        return Time(self.index.cut().oldest)

    def cut(self, now: Time) -> Time:
        """Drop the pieces that need not be kept, and return `oldest`.

        What is dropped is summed up first, where that was asked for, and written down. Then copies
        are removed, then the index forgets them: after a crash nobody looks for a file that is
        gone, and the next cut goes on.

        Args:
            now: What counts as now for the age of rows, in chronons of the stream. Forever is no
                age: of a stream that has ended the last promise before that counts.
        """
        age, rows = self.keeps()
        old = self.index.cut()
        bound = BEGINNING
        if age is not None:
            now = self.index.latest_promise() if now == FOREVER else now
            bound = subtract_saturating(now, Duration(age))
        new = self.index.doomed(bound, rows)
        if new == old and old.swept:
            return Time(old.oldest)
        gone = [piece for _, piece in self.index.gone(old, new)]
        about = self.summaries.about()
        if about is not None and gone:
            self.summaries.keep_cut(old, self._rows_of(gone, about.columns))
        self.index.set_cut(replace(new, swept=False))
        self._remove(gone)
        if not old.swept:
            self.sweep()
        self.index.set_cut(replace(new, swept=True))
        self.index.purge()
        self._corrected.cut(Time(new.oldest), new.batch)
        return Time(new.oldest)

    def keeps(self) -> tuple[int | None, int | None]:
        """For how long rows stay, and how many of them; None: all."""
        if self._spec is not None:
            return self._spec.keep_age, self._spec.keep_rows
        about = self._known_about or read_about(self.folder)
        return (None, None) if about is None else (about.keep_age, about.keep_rows)

    def sweep(self) -> None:
        """Remove copies that interrupted work has left; only the writer may do this.

        Buckets of batches that are not in the index may be those of a task that runs.
        """
        newest = self.index.last_batch()
        named = {piece.split.path for _, piece in self.pieces()}
        for name in self.folder.names():
            batch = name.removeprefix("part-").partition("-")[0]
            is_bucket = name.startswith("part-") and batch.isdigit()
            if is_bucket and int(batch) <= newest and name not in named:
                self.folder.remove(name)

    def _rows_of(self, pieces: Sequence[Piece], columns: Sequence[str]) -> Iterator[EventBatch]:
        for piece in pieces:
            yield from self.read_piece(piece, columns=columns)

    def _remove(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            if _is_bucket(piece.split):
                self.folder.remove(piece.split.path)

    def _schema(self) -> pa.Schema:
        return self.about().payload if self._source is None else self._source.schema

    def _refuse_foreign(self) -> None:
        foreign = [name for name in self.folder.names() if not name.startswith((".", "_"))]
        if foreign:
            raise PlanError(
                "the folder of an archive holds something else",
                where=f"{self.folder.path}: {min(foreign)}",
                hint="choose a new folder for the archive",
            )


def _is_bucket(split: FileSplit) -> bool:
    """Whether a split is a file of the archive: then its path is relative."""
    return not split.path.startswith("/") and "://" not in split.path
