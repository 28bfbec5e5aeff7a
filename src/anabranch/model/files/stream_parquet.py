"""Elements as rows of a Parquet file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
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
from anabranch.model.files.revision_rows import (
    REVISE_KINDS,
    REVISION_HINT,
    RevisionCollector,
    RevisionRow,
)
from anabranch.model.revision import Revision
from anabranch.model.tally import Flags, Numbers
from anabranch.model.time import BEGINNING, FOREVER, Time, TimeArray

ELEMENT_COLUMNS: Final = ("kind", "start", "end", "new_end")
_SPARK_KEY: Final = b"org.apache.spark.sql.parquet.row.metadata"
_KINDS: Final = ("insert", "adjust", "stable", *REVISE_KINDS)
_REVISE: Final = 3
"""Kinds from this one on are those of revisions."""
ORDER_COLUMNS: Final = ("_batch", "_position")
"""In tables that have no order of their own: the batch of an element, and its position in it."""

REVISION_COLUMN: Final = "_revision"
"""In such tables: the number of the revision that a row is part of."""

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
    order = (*ORDER_COLUMNS, REVISION_COLUMN) if has_order(schema) else ()
    taken = {*ELEMENT_COLUMNS, *order}
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
    collector = RevisionCollector(str(path))
    for part in (
        _sorted(file, rows, wanted)
        if has_order(file.schema_arrow)
        else file.iter_batches(rows, columns=wanted)
    ):
        position = np.arange(first, first + part.num_rows, dtype=np.int64)
        code = pc.fill_null(pc.index_in(part.column("kind"), pa.array(_KINDS)), -1).to_numpy()
        if collector.open is None and (code < _REVISE).all():
            yield _arrivals(part, code, schema, position, path)
        else:
            yield _revised(part, code, schema, position, path, collector)
        first += part.num_rows
    for position_, revision in collector.close():
        none = Arrivals.of([], schema)
        yield replace(none, revisions=(revision,), revision_positions=(position_,))


def parquet_has_revisions(path: Path) -> bool:
    """Whether a file holds a revision; only the kinds of its rows are read."""
    kinds = pa.array(REVISE_KINDS)
    return any(
        pc.any(pc.is_in(part.column("kind"), kinds)).as_py()
        for part in _open(path).iter_batches(ROW_GROUP_ROWS, columns=["kind"])
    )


def write_parquet(
    target: Path | IO[bytes], parts: Iterable[EventBatch | Revision], *, clock: Clock
) -> None:
    """Write elements; a stable point follows the rows of its batch where it says more."""
    source = iter(parts)
    first = next(source, EventBatch.empty(pa.schema([])))
    metadata = {TIMES_KEY: note_of_clock(clock).encode()}
    payload = first.changes.schema if isinstance(first, Revision) else first.schema
    schema = _file_schema(payload).with_metadata(metadata)
    reached = int(BEGINNING)
    try:
        with pq.ParquetWriter(target, schema) as writer:
            held: list[pa.Table] = []
            for part in chain([first], source):
                if isinstance(part, Revision):
                    held.append(_revision_rows(part, schema))
                else:
                    held.append(_rows(part, schema, reached))
                    reached = max(reached, part.stable)
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


def _revised(
    part: pa.RecordBatch,
    code: Numbers,
    schema: pa.Schema,
    position: Numbers,
    path: Path,
    collector: RevisionCollector,
) -> Arrivals:
    """The elements of a piece in which revisions are."""
    is_change, is_header = code > _REVISE, code == _REVISE
    behind = np.r_[collector.open is not None, code[:-1] >= _REVISE]
    no_number = is_header & ~_times(part, "new_end")[1]
    for bad, what in (
        (is_change & ~behind, "a change without its revision"),
        (no_number, "a revision without its number"),
    ):
        _refuse(bad, what, part, position, path, REVISION_HINT)

    def among(rows: Flags, codes: Numbers) -> Arrivals:
        return _arrivals(part.filter(pa.array(rows)), codes[rows], schema, position[rows], path)

    changes = among(is_change, code - _REVISE - 1)
    start, end, number = (_times(part, name)[0] for name in ELEMENT_COLUMNS[1:])
    end = np.where(_times(part, "end")[1], end, FOREVER)
    headers = [
        RevisionRow(int(number[row]), int(start[row]), int(end[row]), int(position[row]))
        for row in np.flatnonzero(is_header).tolist()
    ]
    ends = not len(code) or bool(code[-1] < _REVISE)
    found = [*collector.feed(headers, changes.batch, changes.position, ends=ends)]
    return replace(
        among(code < _REVISE, code),
        revisions=tuple(revision for _, revision in found),
        revision_positions=tuple(at for at, _ in found),
    )


def _arrivals(
    part: pa.RecordBatch, code: Numbers, schema: pa.Schema, position: Numbers, path: Path
) -> Arrivals:
    _refuse(code < 0, "unknown kind of element", part, position, path)
    is_stable = code == 2
    start, start_given = _times(part, "start")
    end, end_given = _times(part, "end")
    new_end, new_end_given = _times(part, "new_end")
    is_adjust = code == 1
    forever = ~is_stable & (start == FOREVER)
    _refuse(~start_given, "'start' is missing", part, position, path)
    _refuse(forever, "an event cannot start at forever", part, position, path)
    if "new_end" not in part.schema.names:
        _refuse(is_adjust, "'new_end' is missing", part, position, path)
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


def _refuse(
    bad: np.ndarray,
    what: str,
    part: pa.RecordBatch,
    position: Numbers,
    path: Path,
    hint: str = _SHAPE,
) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        shown = str(part.slice(row, 1).to_pylist()[0])[:100]
        raise StreamError(what, where=f"{path}, row {position[row]}: {shown}", hint=hint)


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


def _revision_rows(revision: Revision, schema: pa.Schema) -> pa.Table:
    """A table of the changes of a revision, behind the row that announces it."""
    changes = _rows(revision.changes.with_stable(BEGINNING), schema, int(BEGINNING))
    kinds = pc.binary_join_element_wise("revise", changes.column("kind"), "-")
    announced = {
        "kind": REVISE_KINDS[0],
        "start": int(revision.first),
        "end": int(revision.last),
        "new_end": revision.number,
    }
    changes = changes.set_column(0, schema.field("kind"), kinds)
    return pa.concat_tables([pa.Table.from_pylist([announced], schema), changes])
