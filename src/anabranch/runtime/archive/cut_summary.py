"""What an archive remembers of rows that it no longer has: counts and sums per bucket of time.

The folder `_summary` of an archive has a note of what is summed up, and a Parquet file per cut with
the summary of the rows that the cut took away. A file is written before its cut and named by the
cut before: whoever cuts again after a crash writes it again, and as long as it has the name of the
present cut its rows are still in the archive, so it does not count. Summaries are merged now and
then. A merged file names what it covers; what it covers does not count.

Corrections are few, so they are kept row by row: withdrawals, of which nobody could tell from a sum
whether they are inside a window, and rows that are older than what the archive keeps when they
come. Their files are named likewise, those of late rows by their batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, final

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import PlanError
from anabranch.kernels.contract.packed_events import pack_events, unpack_events
from anabranch.model.batch import EventBatch
from anabranch.model.record import OMITTED, plain, record
from anabranch.model.time import BEGINNING
from anabranch.runtime.archive.summary import ArchiveSummary
from anabranch.runtime.sources.archived.index import ArchiveCut
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.state_store import arrow_file

SUMMARY_FOLDER: Final = "_summary"
MERGE_FROM_FILES: Final = 32
"""So many summaries of cuts become one."""

_ABOUT: Final = "about.json"
_LATE: Final = "late-"
_MERGED: Final = "merged-"
_HINT: Final = "the archive is damaged: restore it from a copy"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryAbout:
    """What is summed up.

    Attributes:
        by: The columns of the group.
        column: The column that is added up; empty: rows are counted.
        width: How long a bucket is, in chronons.
        is_counted: Whether only rows with a value in the column are counted, and nothing added.
    """

    by: tuple[str, ...]
    column: str
    width: int
    is_counted: bool = field(default=False, metadata=OMITTED)

    @property
    def columns(self) -> list[str]:
        """The columns that have to be read."""
        return [*dict.fromkeys([*self.by, *([self.column] if self.column else [])])]

    def of(self, batches: Iterable[EventBatch]) -> ArchiveSummary | None:
        """The summary of rows; None where there are none that count."""
        parts = [self._counted(batch) for batch in batches]
        if not any(map(len, parts)):
            return None
        column = "" if self.is_counted else self.column
        found = ArchiveSummary.of(parts, by=self.by, column=column, width=self.width)
        return found if found.table.num_rows else None

    def _counted(self, batch: EventBatch) -> EventBatch:
        """The rows with a value, where only those count."""
        if not self.is_counted or not self.column:
            return batch
        there = batch.payload.column(self.column).is_valid()
        return batch.where(there.to_numpy(zero_copy_only=False))


@final
@dataclass(frozen=True, slots=True)
class CutSummaries:
    """The summaries of an archive in this folder."""

    archive: Folder

    @property
    def folder(self) -> Folder:
        """Where they are."""
        return self.archive.child(SUMMARY_FOLDER)

    def about(self) -> SummaryAbout | None:
        """What is summed up; None: nothing is."""
        content = self.folder.read_json(_ABOUT)
        where = f"{self.folder.path}/{_ABOUT}"
        return None if content is None else record(SummaryAbout, content, where=where, hint=_HINT)

    def declare(self, about: SummaryAbout, cut: ArchiveCut) -> None:
        """Sum up from now on.

        Raises:
            PlanError: Something else is summed up, or rows have been cut without a summary.
        """
        old = self.about()
        if old == about:
            return
        if old is not None:
            raise PlanError(
                "the archive has a summary of something else",
                where=f"{self.folder.path}: buckets of {old.width} chronons, by "
                f"{', '.join(old.by) or 'nothing'}",
                hint="start the query with the bucket that it began with",
            )
        if cut != ArchiveCut():
            raise PlanError(
                "the archive has lost rows that were never summed up",
                where=self.archive.path,
                hint="estimates have to be asked for when a query begins; start with a new "
                "checkpoint, or without estimates",
            )
        self.folder.write_json(_ABOUT, plain(about))

    def keep_cut(self, cut: ArchiveCut, batches: Iterable[EventBatch]) -> None:
        """Sum up what the cut after this one takes away, before it does."""
        about = self.about()
        assert about is not None
        comes, goes = [], []
        for batch in batches:
            is_new = batch.end == batch.start
            comes.append(batch.where(is_new))
            goes.append(batch.where(~is_new))
        summary = about.of(comes)
        if summary is not None:
            self._write(_name_of(cut), summary.table, ())
        self._keep_rows(_rows_of(cut), goes)
        self._merge(cut)

    def keep_late(self, batch: int, batches: Iterable[EventBatch]) -> None:
        """Keep rows of a batch that are older than what the archive keeps."""
        name = f"{_LATE}{batch}.arrow"
        if self.folder.read(name) is None:
            self._keep_rows(name, list(batches))

    def read(self, cut: ArchiveCut) -> ArchiveSummary | None:
        """The sums of what is gone."""
        return self._summed(self._tables(self._names(cut)))

    def read_rows(self, cut: ArchiveCut, before: int, schema: pa.Schema) -> Iterator[EventBatch]:
        """The rows of corrections that are gone; of late ones those of batches before one."""
        for name in self.folder.names():
            counts = name.endswith(".arrow") and name != _rows_of(cut)
            if counts and not _is_late(name, before):
                data = self.folder.read(name)
                if data is not None:
                    rows = pa.ipc.open_file(pa.py_buffer(data)).get_batch(0)
                    yield unpack_events(rows, schema, BEGINNING)

    def _keep_rows(self, name: str, batches: Sequence[EventBatch]) -> None:
        there = [batch for batch in batches if len(batch)]
        if there:
            rows = pack_events(EventBatch.concat(there))
            self.folder.write(name, arrow_file(rows))

    def _merge(self, cut: ArchiveCut) -> None:
        names, target = self._names(cut), f"{_MERGED}{_name_of(cut)}"
        # A cut that is repeated after a crash has merged them already.
        if len(names) < MERGE_FROM_FILES or target in names:
            return
        merged = self._summed(self._tables(names))
        if merged is not None:
            self._write(target, merged.table, names)
            for name in names:
                self.folder.remove(name)

    def _names(self, cut: ArchiveCut) -> list[str]:
        """The files that count."""
        names = [name for name in self.folder.names() if name.endswith(".parquet")]
        covered = {_name_of(cut)}
        for name in names:
            if name.startswith(_MERGED):
                covered |= set(_covers(self._schema(name)))
        return sorted(name for name in names if name not in covered)

    def _tables(self, names: Sequence[str]) -> list[pa.Table]:
        read = [self.folder.read(name) for name in names]
        return [pq.read_table(pa.BufferReader(data)) for data in read if data is not None]

    def _schema(self, name: str) -> pa.Schema:
        data = self.folder.read(name)
        return pa.schema([]) if data is None else pq.read_schema(pa.BufferReader(data))

    def _summed(self, tables: Sequence[pa.Table]) -> ArchiveSummary | None:
        about = self.about()
        found: ArchiveSummary | None = None
        for table in tables:
            assert about is not None
            each = ArchiveSummary(
                table=table.replace_schema_metadata(None),
                by=about.by,
                column="" if about.is_counted else about.column,
                width=about.width,
            )
            found = each if found is None else found.plus(each)
        return found

    def _write(self, name: str, table: pa.Table, covers: Sequence[str]) -> None:
        buffer = pa.BufferOutputStream()
        note = {b"covers": "\n".join(covers).encode()}
        pq.write_table(table.replace_schema_metadata(note), buffer)
        self.folder.write(name, buffer.getvalue().to_pybytes())


def _name_of(cut: ArchiveCut) -> str:
    return f"cut{cut.before}_{cut.batch}.parquet"


def _rows_of(cut: ArchiveCut) -> str:
    return f"cut{cut.before}_{cut.batch}.arrow"


def _covers(schema: pa.Schema) -> list[str]:
    note = (schema.metadata or {}).get(b"covers", b"").decode()
    return note.split("\n") if note else []


def _is_late(name: str, before: int) -> bool:
    """Whether a file has late rows of a batch that does not count yet."""
    if not name.startswith(_LATE):
        return False
    return int(name.removeprefix(_LATE).removesuffix(".arrow")) >= before
