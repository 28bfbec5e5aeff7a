"""Many entries of the index in one file: Parquet with a row per piece, small and quick to search.

A path mostly repeats the one before it, and times and batches grow: differences are stored, and
compressed. So a piece takes a few bytes, whatever the length of its path. The name of a segment
says which batches and times it covers, so that most segments need not be opened.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.algebra.analysis.spans import EVERYTHING, Span
from anabranch.model.record import plain, record
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.runtime.sources.archived.pieces import ArchivedBatch, Piece
from anabranch.runtime.sources.files.reader import FileSplit

SEGMENT: Final = ".segment"
ENTRY: Final = ".json"
_GROUP: Final = 4096
_TIMES: Final = ("first", "last")
_WHOLE_NUMBERS: Final = (
    "batch",
    "promised",
    "known_at",
    *_TIMES,
    "rows",
    "from",
    "to",
    "number",
    "stable",
    "stamp",
    "copy",
    "latest",
)
_TEXTS: Final = ("path", "more")
SCHEMA: Final = pa.schema(
    [*((name, pa.int64()) for name in _WHOLE_NUMBERS), *((name, pa.string()) for name in _TEXTS)]
)
"""`more` is the whole split as JSON, where it has what few splits have."""


@final
@dataclass(frozen=True, slots=True)
class IndexFile:
    """A file of the index, and what its name says: entries have level 0, segments more.

    Attributes:
        name: Its name.
        level: How often its entries have been merged.
        batches: The first batch that it covers and the last one.
        first: The least start in it (of a segment).
        last: The greatest end in it (of a segment).
        rows: How many rows its pieces have (of a segment).
        pieces: How many pieces it has (of a segment).
    """

    name: str
    level: int
    batches: tuple[int, int]
    first: int = BEGINNING
    last: int = FOREVER
    rows: int = 0
    pieces: int = 0

    def overlaps(self, span: Span) -> bool:
        """Whether there may be rows in it that hold at one of these instants."""
        return self.first < span[1] and self.last > span[0]


def entry_name(batch: int) -> str:
    """What the entry of a batch is called."""
    return f"{batch}{ENTRY}"


@lru_cache(maxsize=4096)
def index_file(name: str) -> IndexFile | None:
    """What a name says; None where it is not one of the index."""
    if name.endswith(ENTRY):
        stem = name.removesuffix(ENTRY)
        return IndexFile(name, 0, (int(stem), int(stem))) if stem.isdigit() else None
    if not name.endswith(SEGMENT):
        return None
    level, low, high, first, last, rows, pieces = map(int, name.removesuffix(SEGMENT).split("_"))
    return IndexFile(name, level, (low, high), first, last, rows, pieces)


def segment_name(level: int, batches: tuple[int, int], table: pa.Table) -> str:
    """What a segment is called that covers these batches and has this content."""
    first, last, rows = (table.column(name).to_numpy() for name in ("first", "last", "rows"))
    numbers = (
        level,
        *batches,
        first.min(),
        last.max(),
        rows.sum(),
        len(table) - table.column("path").null_count,
    )
    return "_".join(str(int(number)) for number in numbers) + SEGMENT


def table_of(entries: Iterable[ArchivedBatch]) -> pa.Table:
    """Entries as rows, one per piece; one without pieces is a row without a path.

    The times of such a row are what was promised, so that it goes when that is long past.
    """
    columns: dict[str, list[object]] = {name: [] for name in SCHEMA.names}
    for entry in entries:
        for piece in entry.pieces or (None,):
            split = None if piece is None else piece.split
            values = (
                entry.batch,
                entry.promised,
                entry.known_at,
                *((entry.promised,) * 2 if piece is None else (piece.first, piece.last)),
                0 if piece is None else piece.rows,
                *(
                    (None,) * 8
                    if split is None
                    else (
                        split.first,
                        split.last,
                        split.number,
                        split.stable,
                        split.stamp,
                        split.copy,
                        split.latest,
                        split.path,
                    )
                ),
                None if split is None or not _has_more(split) else json.dumps(plain(split)),
            )
            for name, value in zip(SCHEMA.names, values, strict=True):
                columns[name].append(value)
    return pa.table(columns, SCHEMA)


def _has_more(split: FileSplit) -> bool:
    return bool(split.values or split.change)


def entries_of(table: pa.Table, where: str) -> list[ArchivedBatch]:
    """The entries in rows, in their order."""
    found: list[ArchivedBatch] = []
    columns = [table.column(name).to_pylist() for name in SCHEMA.names]
    for batch, promised, known_at, first, last, rows, *split, more in zip(*columns, strict=True):
        pieces: tuple[Piece, ...] = ()
        if split[-1] is not None:
            pieces = (Piece(_split(split, more, where), first, last, rows),)
        if found and found[-1].batch == batch:
            pieces = (*found.pop().pieces, *pieces)
        found.append(
            ArchivedBatch(batch=batch, pieces=pieces, promised=promised, known_at=known_at)
        )
    return found


def _split(values: Sequence[int | None], more: str | None, where: str) -> FileSplit:
    if more is not None:
        return record(FileSplit, json.loads(more), where=where)
    first, last, number, stable, stamp, copy, latest, path = values
    return FileSplit(path, first, last, number, stable, stamp, copy, latest=latest)  # type: ignore[arg-type]


def segment_bytes(table: pa.Table) -> bytes:
    """The content of a segment."""
    data = io.BytesIO()
    pq.write_table(
        table,
        data,
        row_group_size=_GROUP,
        compression="zstd",
        use_dictionary=False,
        column_encoding={
            **dict.fromkeys(_WHOLE_NUMBERS, "DELTA_BINARY_PACKED"),
            **dict.fromkeys(_TEXTS, "DELTA_BYTE_ARRAY"),
        },
        write_statistics=["batch", *_TIMES],
        store_schema=False,
    )
    return data.getvalue()


def read_segment(
    file: pa.NativeFile, span: Span = EVERYTHING, batches: tuple[int, int] | None = None
) -> pa.Table:
    """The rows of a segment that overlap a span, in row groups that may have these batches."""
    with pq.ParquetFile(file) as parquet:
        groups = [
            group
            for group in range(parquet.num_row_groups)
            if _may_overlap(parquet.metadata, group, span, batches)
        ]
        table = parquet.read_row_groups(groups, columns=SCHEMA.names, use_threads=False)
    return among(table, span)


def among(table: pa.Table, span: Span) -> pa.Table:
    """The rows whose times overlap a span."""
    if span == EVERYTHING:
        return table
    found = np.flatnonzero(overlapping(table, span))
    if len(found) and found[-1] - found[0] + 1 == len(found):
        # As a rule rows come in the order of time: then nothing has to be copied.
        return table.slice(int(found[0]), len(found))
    return table.take(pa.array(found))


def overlapping(table: pa.Table, span: Span) -> npt.NDArray[np.bool_]:
    """Which rows have times that overlap a span."""
    first, last = (table.column(name).to_numpy() for name in _TIMES)
    found: npt.NDArray[np.bool_] = (first < np.int64(span[1])) & (last > np.int64(span[0]))
    return found


def _may_overlap(
    metadata: pq.FileMetaData, group: int, span: Span, batches: tuple[int, int] | None
) -> bool:
    columns = metadata.row_group(group)
    batch, first, last = (
        columns.column(SCHEMA.get_field_index(name)).statistics for name in ("batch", *_TIMES)
    )
    if batches is not None and (batch.max < batches[0] or batch.min > batches[1]):
        return False
    return span == EVERYTHING or bool(first.min < span[1] and last.max > span[0])


def only_pieces(table: pa.Table) -> pa.Table:
    """The rows that stand for a piece."""
    path = table.column("path")
    return table.filter(pc.is_valid(path)) if path.null_count else table
