"""A bucket: rows as they arrived, in one Parquet file that every engine reads as a table.

Its columns are those of the payload, of element tables (kind, start, end, new_end; forever is
NULL), `known`, the batch that brought the row, and `revision`, the number of the correction that
it belongs to, NULL of rows as they arrived. Where the payload has such a column, the archive's is
called `_known`, and so on.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.algebra.analysis.spans import EVERYTHING, Span
from anabranch.errors import StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.clock import Clock, note_of_clock
from anabranch.model.files.stream_parquet import TIMES_KEY
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.runtime.archive.narrowing import Wanted, bounds_of, may_hold
from anabranch.runtime.sources.archived.about import bucket_columns, bucket_shape
from anabranch.runtime.sources.archived.pieces import LATE_BUCKET, Piece, hull
from anabranch.runtime.sources.files.parquet_times import StartStatistics
from anabranch.runtime.sources.files.reader import WHOLE, FileSplit
from anabranch.runtime.sources.rows import arrivals_of
from anabranch.runtime.store.folder import Folder

BUCKET_GROUP_ROWS: Final = 1 << 16
"""A row group of a bucket has so many rows: the least that is read of it."""

_TEXT: Final = pa.string()
_TYPES: Final = b"ARROW:schema"
"""The note in which Arrow keeps the types of columns, beside those that Parquet has."""

_HULLS: Final = b"anabranch.hulls"
"""The note with the times of every row group: an end that is missing would be forever."""


def bucket_name(batch: int, part: int, message: int, *, late: bool = False) -> str:
    """What a bucket is called; a repeated attempt writes the same one again."""
    end = LATE_BUCKET if late else ".parquet"
    return f"part-{batch:08d}-{part:04d}-{message:04d}{end}"


def write_bucket(
    folder: Folder,
    rows: EventBatch,
    *,
    batch: int,
    part: int,
    message: int = 0,
    clock: Clock,
    late: bool = False,
) -> Piece:
    """Write the rows that a task has read; they count once the batch is in the archive.

    Args:
        folder: The archive.
        rows: What arrived.
        batch: The batch.
        part: The number of the task among those of the source.
        message: How many buckets the task has written before.
        clock: How the stream counts time.
        late: They came too late, and correct what came before.
    """
    name = bucket_name(batch, part, message, late=late)
    return write_rows(folder, name, rows, known=batch, revision=None, clock=clock)


def write_rows(
    folder: Folder, name: str, rows: EventBatch, *, known: int, revision: int | None, clock: Clock
) -> Piece:
    """Write rows into one file of the archive, whose name may begin with a folder."""
    count = len(rows)
    adjusts = None if rows.end is rows.start else rows.end != rows.start
    if adjusts is None or not adjusts.any():
        kinds = pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(count, np.int8)), pa.array(["insert"], _TEXT)
        )
        end, new_end = rows.new_end, pa.nulls(count, pa.int64())
    else:
        kinds = pa.array(np.where(adjusts, "adjust", "insert"), pa.string())
        end = np.where(adjusts, rows.end, rows.new_end)
        new_end = pa.array(rows.new_end, mask=~adjusts | (rows.new_end == FOREVER))
    forever = end == FOREVER
    columns = [
        kinds,
        pa.array(rows.start),
        pa.array(end, mask=forever) if forever.any() else pa.array(end),
        new_end,
        *rows.payload.columns,
        pa.repeat(pa.scalar(known, pa.int64()), count),
        pa.repeat(pa.scalar(revision, pa.int64()), count),
    ]
    names = bucket_columns(rows.schema)
    times = [hull(_part(rows, first)) for first in range(0, count, BUCKET_GROUP_ROWS)]
    note = {TIMES_KEY: note_of_clock(clock).encode(), _HULLS: json.dumps(times).encode()}
    table = pa.Table.from_arrays(columns, names)
    fields = [field.with_type(_TEXT) if field.name == names[0] else field for field in table.schema]
    # Whoever reads the file finds the types of the rows: that a column was handed over as a
    # dictionary does not show.
    note[_TYPES] = b64encode(pa.schema(fields).serialize())
    # A stream of Arrow's own: to write to one of Python's, the thread would wait at every page for
    # the interpreter, which is busy with the rows of the batch meanwhile.
    data = pa.BufferOutputStream()
    try:
        with pq.ParquetWriter(
            data,
            table.schema,
            # To look for equal numbers takes longer than to write them, and they seldom are.
            use_dictionary=[
                name for name in names if not pa.types.is_floating(table.schema.field(name).type)
            ],
            compression=_compression(table.schema),
            store_schema=False,
        ) as writer:
            writer.write_table(table, BUCKET_GROUP_ROWS)
            writer.add_key_value_metadata(note)
    except pa.ArrowNotImplementedError as problem:
        raise StreamError(
            "a column cannot be archived: Parquet has no such type",
            where=str(problem)[:200],
            hint="cast the column to another type",
        ) from None
    *parents, base = name.split("/")
    for parent in parents:
        folder = folder.child(parent)
    folder.write(base, data.getvalue(), mark=str(known))
    first, last = hull(rows)
    return Piece(FileSplit(name, 0, WHOLE), first, last, len(rows))


def _compression(schema: pa.Schema) -> str | dict[str, str]:
    """How columns are compressed: floats are not.

    Of 250,000 prices with two decimals Snappy saves two fifths, in 2.7 ms of the 18 that a bucket
    of quotes takes; of measured numbers it saves next to nothing.
    """
    if any(pa.types.is_nested(field.type) for field in schema):
        # Their leaves have names of their own.
        return "snappy"
    return {
        field.name: "none" if pa.types.is_floating(field.type) else "snappy" for field in schema
    }


def _part(rows: EventBatch, first: int) -> EventBatch:
    some = slice(first, first + BUCKET_GROUP_ROWS)
    return EventBatch(rows.payload, rows.start[some], rows.end[some], rows.new_end[some])


def read_bucket(
    folder: Folder,
    name: str,
    schema: pa.Schema,
    *,
    every: pa.Schema,
    span: Span = EVERYTHING,
    wanted: Wanted | None = None,
) -> Iterator[EventBatch]:
    """The rows of the row groups that may hold within a span.

    Args:
        folder: The archive.
        name: The file in it.
        schema: The payload columns to read.
        every: All payload columns.
        span: The instants that matter.
        wanted: The values that matter.

    Raises:
        StreamError: The file is gone or damaged.
    """
    shape = bucket_shape(every)
    *parents, base = name.split("/")
    inner = folder
    for parent in parents:
        inner = inner.child(parent)
    try:
        opened = inner.open(base)
        if opened is None:
            raise FileNotFoundError(base)
        file = pq.ParquetFile(opened[0])
        bounds = bounds_of(wanted or {})
        statistics = StartStatistics(file.metadata, shape)
        hulls = json.loads(file.metadata.metadata[_HULLS])
        groups = [
            group
            for group, (first, last) in enumerate(hulls)
            if first < span[1] and last > span[0] and may_hold(statistics, group, bounds)
        ]
        columns: Sequence[str] = [*schema.names, *shape.columns]
        for group in groups:
            table = file.read_row_group(group, columns=columns, use_threads=False)
            for rows in table.combine_chunks().to_batches():
                where = f"{folder.path}/{name}"
                found = arrivals_of(rows, schema, shape, first=1, where=where)
                yield found.batch.with_stable(BEGINNING)
    except (pa.ArrowInvalid, OSError) as problem:
        raise StreamError(
            "a bucket of the archive is missing or damaged",
            where=f"{folder.path}/{name}: {str(problem)[:120]}",
            hint="restore the file from a copy; without it, what it holds cannot be replayed",
        ) from None
