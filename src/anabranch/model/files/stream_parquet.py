"""Elements as rows of a Parquet file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.errors import StreamError
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, MICROSECONDS, Clock, clock_of_note, note_of_clock
from anabranch.model.time import BEGINNING, FOREVER, Time, TimeArray

ELEMENT_COLUMNS: Final = ("kind", "start", "end", "new_end")
_SPARK_KEY: Final = b"org.apache.spark.sql.parquet.row.metadata"
_KINDS: Final = ("insert", "adjust", "stable")
ORDER_COLUMNS: Final = ("_batch", "_position")
"""In tables that have no order of their own: the batch of an element, and its position in it."""

TIMES_KEY: Final = b"anabranch.times"
"""The note how times are counted: of a file, or of the column `start`."""

ROW_GROUP_ROWS: Final = 2**17
"""A row group is written from so many rows on."""

_SHAPE: Final = (
    "an element file has the columns kind ('insert', 'adjust' or 'stable'), start, end, new_end, "
    "and those of the payload; a stable has its time in start"
)


def describe_parquet(path: Path) -> tuple[pa.Schema, Clock]:
    """The payload columns, and how the file counts time."""
    schema = _open(path).schema_arrow
    missing = [name for name in ("kind", "start") if name not in schema.names]
    if missing:
        what = f"no column '{missing[0]}'"
        raise StreamError(what, where=f"{path}: columns {', '.join(schema.names)}", hint=_SHAPE)
    taken = {*ELEMENT_COLUMNS, *(ORDER_COLUMNS if has_order(schema) else ())}
    payload = [
        pa.field(field.name, plain_type(field.type)) for field in schema if field.name not in taken
    ]
    kept = (schema.metadata or {}).get(TIMES_KEY) or _noted(schema)
    if pa.types.is_timestamp(schema.field("start").type):
        return pa.schema(payload), MICROSECONDS
    return pa.schema(payload), INTEGERS if kept is None else clock_of_note(kept.decode())


def read_parquet(path: Path, schema: pa.Schema, rows: int) -> Iterator[Arrivals]:
    """The elements of the file; positions are rows, counted from 1.

    Where columns tell the order the rows are sorted by them first.
    """
    file = _open(path)
    found, _ = describe_parquet(path)
    for name in schema.names:
        if name not in found.names:
            names = ", ".join(found.names) or "none"
            raise StreamError(f"no column '{name}'", where=f"{path}", hint=f"columns are: {names}")
    times = [name for name in ELEMENT_COLUMNS if name in file.schema_arrow.names]
    first = 1
    wanted = [*times, *schema.names]
    for part in (
        _sorted(file, rows, wanted)
        if has_order(file.schema_arrow)
        else file.iter_batches(rows, columns=wanted)
    ):
        yield _arrivals(part, schema, first, path)
        first += part.num_rows


def write_parquet(target: Path | IO[bytes], batches: Iterable[EventBatch], *, clock: Clock) -> None:
    """Write elements; a stable point follows the rows of its batch where it says more."""
    source = iter(batches)
    first = next(source, EventBatch.empty(pa.schema([])))
    metadata = {TIMES_KEY: note_of_clock(clock).encode()}
    schema = _file_schema(first.schema).with_metadata(metadata)
    reached = int(BEGINNING)
    try:
        with pq.ParquetWriter(target, schema) as writer:
            held: list[pa.Table] = []
            for batch in chain([first], source):
                held.append(_rows(batch, schema, reached))
                reached = max(reached, batch.stable)
                # Batches may be small; row groups should not be.
                if sum(map(len, held)) >= ROW_GROUP_ROWS:
                    writer.write_table(pa.concat_tables(held))
                    held = []
            if held:
                writer.write_table(pa.concat_tables(held))
    except pa.ArrowNotImplementedError as problem:
        hint = "write JSON lines, or cast the column to another type"
        raise StreamError("Parquet has no such type", where=str(problem), hint=hint) from None


def _sorted(file: pq.ParquetFile, rows: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows by batch and position; for this all of them are in memory."""
    table = file.read([*dict.fromkeys([*columns, *ORDER_COLUMNS])])
    keys = [(name, "ascending") for name in ORDER_COLUMNS]
    yield from table.sort_by(keys).select(columns).to_batches(rows)


def has_order(schema: pa.Schema) -> bool:
    """Whether the columns that tell the order are there."""
    return all(
        name in schema.names and pa.types.is_integer(schema.field(name).type)
        for name in ORDER_COLUMNS
    )


def noted_clock(start: pa.Field) -> Clock | None:
    """How the numbers of the column `start` are to be read, if there is a note at it."""
    note = (start.metadata or {}).get(TIMES_KEY)
    return None if note is None else clock_of_note(note.decode())


def _noted(schema: pa.Schema) -> bytes | None:
    """The note at the column `start`, as Arrow or as Spark writes it down."""
    note_here: bytes | None = (schema.field("start").metadata or {}).get(TIMES_KEY)
    if note_here is not None:
        return note_here
    written = json.loads((schema.metadata or {}).get(_SPARK_KEY) or "{}")
    for field in written.get("fields", ()):
        if field["name"] == "start":
            note: str | None = field["metadata"].get(TIMES_KEY.decode())
            return None if note is None else note.encode()
    return None


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without a layout of its own: no large or dictionary-encoded variants."""
    types = pa.types
    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_large_list(kind) or types.is_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in fields])
    return kind


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as problem:
        what = "not a Parquet file"
        raise StreamError(what, where=f"{path}: {str(problem)[:100]}", hint=_SHAPE) from None


def _arrivals(part: pa.RecordBatch, schema: pa.Schema, first: int, path: Path) -> Arrivals:
    code = pc.fill_null(pc.index_in(part.column("kind"), pa.array(_KINDS)), -1).to_numpy()
    _refuse(code < 0, "unknown kind of element", part, first, path)
    is_stable = code == 2
    start, start_given = _times(part, "start")
    end, end_given = _times(part, "end")
    new_end, new_end_given = _times(part, "new_end")
    is_adjust = code == 1
    _refuse(~start_given, "'start' is missing", part, first, path)
    _refuse(~is_stable & (start == FOREVER), "an event cannot start at forever", part, first, path)
    if "new_end" not in part.schema.names:
        _refuse(is_adjust, "'new_end' is missing", part, first, path)
    end = np.where(end_given, end, FOREVER)
    new_end = np.where(new_end_given, new_end, FOREVER)
    rows = np.flatnonzero(~is_stable)
    try:
        columns = [part.column(f.name).take(pa.array(rows)).cast(f.type) for f in schema]
    except pa.ArrowInvalid as problem:
        what = "a column does not have the declared type"
        raise StreamError(
            what, where=f"{path}: {problem}", hint="declare the type that the file has"
        ) from None
    payload = (
        pa.RecordBatch.from_arrays(columns, schema=schema)
        if columns
        else pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    )
    adjusted = is_adjust[rows]
    stables = start[is_stable]
    position = np.arange(first, first + part.num_rows, dtype=np.int64)
    return Arrivals(
        batch=EventBatch(
            payload,
            start[rows],
            np.where(adjusted, end[rows], start[rows]),
            np.where(adjusted, new_end[rows], end[rows]),
            Time(int(stables.max(initial=BEGINNING))),
        ),
        position=position[rows],
        is_adjust=adjusted,
        stables=stables,
        stable_positions=position[is_stable],
    )


def _times(part: pa.RecordBatch, name: str) -> tuple[TimeArray, np.ndarray]:
    if name not in part.schema.names:
        return np.zeros(part.num_rows, np.int64), np.zeros(part.num_rows, np.bool_)
    column = part.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz))
    there = column.is_valid().to_numpy(zero_copy_only=False)
    return pc.fill_null(column.cast(pa.int64()), 0).to_numpy(), there


def _refuse(bad: np.ndarray, what: str, part: pa.RecordBatch, first: int, path: Path) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        shown = str(part.slice(row, 1).to_pylist()[0])[:100]
        raise StreamError(what, where=f"{path}, row {first + row}: {shown}", hint=_SHAPE)


def _file_schema(payload: pa.Schema) -> pa.Schema:
    taken = [name for name in payload.names if name in ELEMENT_COLUMNS]
    if taken:
        raise StreamError(
            f"a payload column is called '{taken[0]}'",
            hint=f"{', '.join(ELEMENT_COLUMNS)} are reserved in element tables; rename the column, "
            "or write JSON lines",
        )
    times = [pa.field(name, pa.int64()) for name in ELEMENT_COLUMNS[1:]]
    columns = [pa.field(field.name, field.type) for field in payload]
    return pa.schema([pa.field("kind", pa.string(), nullable=False), *times, *columns])


def _rows(batch: EventBatch, schema: pa.Schema, reached: int) -> pa.Table:
    """A table of elements: the rows of the batch, then its stable point."""
    keep = (batch.end != batch.start) | (batch.new_end != batch.start)
    batch = batch.where(keep)
    adjusts = batch.end != batch.start
    columns = [
        pa.array(np.where(adjusts, "adjust", "insert"), pa.string()),
        pa.array(batch.start),
        pa.array(np.where(adjusts, batch.end, batch.new_end)),
        pa.array(batch.new_end, mask=~adjusts),
        *batch.payload.columns,
    ]
    table = pa.Table.from_arrays(columns, schema=schema)
    if batch.stable <= reached:
        return table
    last = {"kind": "stable", "start": int(batch.stable)}
    return pa.concat_tables([table, pa.Table.from_pylist([last], schema)])
