"""Read a split of a file: only the columns that are needed, straight into arrivals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, NoReturn, TypeAlias, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.json as pj
import pyarrow.parquet as pq

from anabranch.errors import StreamError
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.coarser import chronon_of_time, coarser
from anabranch.model.files.json_decode import MisfitError, decode_value, from_wire, wire_type
from anabranch.model.files.stream_file import read_lines
from anabranch.model.record import OMITTED
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.sources.archived.about import archived_columns
from anabranch.runtime.sources.files.declared_columns import no_column
from anabranch.runtime.sources.files.delta_rows import KIND, Change, read_delta
from anabranch.runtime.sources.files.listing import form_of
from anabranch.runtime.sources.files.parquet_metadata import open_parquet
from anabranch.runtime.sources.rows import arrivals_of, latest_times
from anabranch.runtime.sources.spec import ARRIVAL, FileForm, FileSource, Shape
from anabranch.runtime.store.folder import Folder

CHUNK_ROWS: Final = 1_000_000
WHOLE: Final = -1
"""The `last` of a split that goes on to the end of a file without positions."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_HEAD: Final = 1 << 16
_ZONED: Final = r"\d{2}:\d{2}.*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)\s*$"
"""A time of day with a zone behind it; the last part of a date looks like one."""
_STABLE: Final = re.compile(rb'^.*"stable".*$', re.MULTILINE)


@final
@dataclass(frozen=True, slots=True)
class FileSplit:
    """A piece of a file: row groups of Parquet, bytes of text (whole lines), or all of it.

    `number` is that of its first row or line; `stable` is what a log says about the time after
    the file that ends here; `stamp` is the time at which it came, where that counts; `copy` is the
    number of the copy it belongs to, where a stream has copies; `values` and `change` say of a file
    of a Delta table what is not in it; the `change` "revision" says that its rows are those of a
    revision, "corrections" that it is no file of the source, but one of corrections that were
    handed in. `latest` is its largest start where the file itself tells,
    without being read, and tells that it holds no stable points.
    """

    row: ClassVar[bool] = True

    path: str
    first: int
    last: int
    number: int = 1
    stable: int | None = None
    stamp: int | None = None
    copy: int | None = None
    # Most splits have no more, and plans are written with every batch.
    values: tuple[tuple[str, str | None], ...] = field(default=(), metadata=OMITTED)
    change: Change = field(default="", metadata=OMITTED)
    latest: int | None = field(default=None, metadata=OMITTED)


Narrow: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Leaves out rows that do not matter to whoever reads, as they are in the file."""


def read_split(
    source: FileSource, split: FileSplit, columns: Sequence[str], narrow: Narrow | None = None
) -> Iterator[Arrivals]:
    """The arrivals in a split, with these payload columns.

    Args:
        source: Whose file it is.
        split: What to read of it.
        columns: The payload columns.
        narrow: For whoever wants few rows of a table: the others are dropped before anything is
            made of them. Then positions do not count.

    Raises:
        StreamError: The file cannot be read, or does not hold what was declared.
    """
    if split.change == "corrections":
        yield from read_corrections(split, source.schema, columns)
        return
    schema = pa.schema([source.schema.field(name) for name in columns])
    form = form_of_split(source, split)
    if form == "lines":
        arrivals = read_lines(_bytes(split), source.schema, split.number, name=split.path)
        if len(schema) < len(source.schema):
            arrivals = _pruned(arrivals, schema)
        yield coarser(arrivals, time_step(source, form)).flattened()
        return
    assert source.shape is not None
    needed = dict.fromkeys([*columns, *source.shape.columns])
    needed.pop(ARRIVAL, None)
    # A column has to tell how many rows there are.
    stored = pa.schema([source.stored.field(name) for name in needed or source.stored.names[:1]])
    number, shape = split.number, source.shape
    batches = _delta(split, stored, shape) if form == "delta" else None
    for every in batches or _READERS[form](split, stored):
        rows = every if narrow is None else narrow(every)
        if shape.new_end not in (None, *rows.schema.names):
            # Without the column there can be no adjusts; a NULL in it would be forever.
            shape = replace(shape, new_end=None)
        if split.stamp is not None:
            stamps = pa.array(np.full(rows.num_rows, split.stamp, np.int64))
            rows = rows.append_column(ARRIVAL, stamps)
        arrivals = arrivals_of(rows, schema, shape, first=number, where=split.path)
        if split.change == "revision":
            arrivals = _as_revision(arrivals)
        yield coarser(arrivals, time_step(source, form)).flattened()
        number += every.num_rows


def read_corrections(
    split: FileSplit, every: pa.Schema, columns: Sequence[str]
) -> Iterator[Arrivals]:
    """Corrections that were handed in: elements in the form of a bucket, whatever the source is.

    Args:
        split: The file.
        every: All payload columns of the source.
        columns: Those that are needed.

    Raises:
        StreamError: The file cannot be read.
    """
    stored, shape = archived_columns(pa.schema([every.field(name) for name in columns]), every)
    parent, _, name = split.path.rpartition("/")
    try:
        opened = Folder.at(parent).open(name)
        if opened is None:
            raise FileNotFoundError(split.path)
        table = pq.ParquetFile(opened[0]).read(columns=stored.names, use_threads=False)
    except (pa.ArrowInvalid, OSError) as problem:
        _unreadable(split.path, problem)
    schema = pa.schema([every.field(name) for name in columns])
    number = split.number
    for rows in _batches(table):
        yield arrivals_of(rows, schema, shape, first=number, where=split.path)
        number += rows.num_rows


def read_times(source: FileSource, split: FileSplit) -> tuple[Time, Time]:
    """The largest start and the largest stable point in a split; only what tells these is read.

    Raises:
        StreamError: The file cannot be read.
    """
    step = time_step(source, source.form)
    if source.form == "lines":
        data = _bytes(split)
        if source.promise.delay is None:
            data = _lines_with_stables(data)
        arrivals = read_lines(data, source.schema, split.number, name=split.path)
        latest_start = Time(int(arrivals.batch.start.max(initial=BEGINNING)))
        return chronon_of_time(latest_start, step), chronon_of_time(arrivals.batch.stable, step)
    shape = source.shape
    assert shape is not None
    # What a Delta table says of its changes holds no stable points.
    times = Shape(start=shape.start, kind=None if shape.kind == KIND else shape.kind)
    stored = pa.schema([source.stored.field(name) for name in times.columns])
    read = partial(_delta, shape=times) if source.form == "delta" else _READERS[source.form]
    found = [latest_times(rows, times, where=split.path) for rows in read(split, stored)]
    latest, stable = zip(*found, strict=True) if found else ((), ())
    both = (max(latest, default=BEGINNING), max(stable, default=BEGINNING))
    return chronon_of_time(both[0], step), chronon_of_time(both[1], step)


def _lines_with_stables(data: bytes) -> bytes:
    """The lines that may hold a stable point; they are few, and the rest need not be parsed.

    A key may also be spelled with escapes. Then every line may be one.
    """
    if b"\\u" in data:
        return data
    return b"\n".join(_STABLE.findall(data))


def form_of_split(source: FileSource, split: FileSplit) -> FileForm:
    """What a split holds; copies of a stream may have different forms."""
    if not source.copies:
        return source.form
    return "lines" if form_of(Path(split.path)) == "json" else "parquet"


def time_step(source: FileSource, form: FileForm) -> int:
    """So many steps of the times in a file are one chronon; JSON lines have ISO timestamps."""
    promise = source.promise
    if source.copies:
        return promise.clock.chronon or 1 if form == "lines" and promise.clock.timestamps else 1
    return promise.step


def _as_revision(arrivals: Arrivals) -> Arrivals:
    """The rows as the changes of a revision; its number does not matter here."""
    changes = arrivals.batch
    if not len(changes):
        return arrivals
    first, last = int(changes.start.min()), int(np.maximum(changes.end, changes.new_end).max())
    return replace(
        arrivals,
        batch=EventBatch.empty(changes.schema),
        position=arrivals.position[:0],
        is_adjust=arrivals.is_adjust[:0],
        revisions=(Revision(number=1, first=Time(first), last=Time(last), changes=changes),),
        revision_positions=(int(arrivals.position[0]),),
    )


def _pruned(arrivals: Arrivals, schema: pa.Schema) -> Arrivals:
    def of(batch: EventBatch) -> EventBatch:
        return batch.with_payload(batch.payload.select(schema.names))

    revisions = (replace(each, changes=of(each.changes)) for each in arrivals.revisions)
    return replace(arrivals, batch=of(arrivals.batch), revisions=tuple(revisions))


def _parquet(split: FileSplit, stored: pa.Schema) -> Iterator[pa.RecordBatch]:
    try:
        file = open_parquet(split.path)
        there = file.schema_arrow
        # Elements may come without the columns that only some of them need.
        may_lack = {"end", "new_end"} if "kind" in stored.names else set()
        optional = [n for n in stored.names if n in may_lack and n not in there.names]
        names = [name for name in stored.names if name not in optional]
        _demand(names, there.names, split.path)
        groups = range(split.first, file.num_row_groups if split.last == WHOLE else split.last)
        table = file.read_row_groups(groups, columns=names, use_threads=False)
    except (pa.ArrowInvalid, OSError) as problem:
        _unreadable(split.path, problem)
    if "end" in optional:
        table = table.append_column("end", pa.nulls(table.num_rows, stored.field("end").type))
    yield from _batches(table)


def _delta(split: FileSplit, stored: pa.Schema, shape: Shape) -> Iterator[pa.RecordBatch]:
    try:
        file = open_parquet(split.path)
        groups = range(split.first, split.last)
        yield from read_delta(file, groups, stored, shape, dict(split.values), split.change)
    except (pa.ArrowInvalid, OSError) as problem:
        _unreadable(split.path, problem)


def _json(split: FileSplit, stored: pa.Schema) -> Iterator[pa.RecordBatch]:
    data = _bytes(split)
    if not data.strip():
        return
    wire = pa.schema([(field.name, wire_type(field.type)) for field in stored])
    parse = pj.ParseOptions(explicit_schema=wire, unexpected_field_behavior="ignore")
    whole = pj.ReadOptions(use_threads=False, block_size=len(data) + 1)
    try:
        table = pj.read_json(pa.BufferReader(data), whole, parse).combine_chunks()
        columns = [from_wire(_array(table, field.name), field.type) for field in stored]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, MisfitError) as problem:
        _name_line(data, stored, split, problem)
    yield pa.RecordBatch.from_arrays(columns, schema=stored)


def _csv(split: FileSplit, stored: pa.Schema) -> Iterator[pa.RecordBatch]:
    if _is_blank(split.path):
        return
    options = pcsv.ConvertOptions(
        column_types={field.name: _csv_type(field.type) for field in stored},
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        # Reading all columns first tells a missing one from an unreadable file.
        table = pcsv.read_csv(
            split.path, pcsv.ReadOptions(use_threads=False), convert_options=options
        )
        _demand(stored.names, table.column_names, split.path)
        table = table.select(stored.names).combine_chunks()
        columns = [_from_csv(_array(table, field.name), field.type) for field in stored]
    except (pa.ArrowInvalid, OSError, MisfitError) as problem:
        _unreadable(split.path, problem)
    yield pa.RecordBatch.from_arrays(columns, schema=stored)


def _is_blank(path: str) -> bool:
    """Whether a file of text holds nothing, as one that is created before it is written."""
    try:
        with pa.input_stream(path, compression="detect") as stream:
            while block := bytes(stream.read(_HEAD)):
                if block.strip():
                    return False
    except OSError as problem:
        _unreadable(path, problem)
    return True


def _csv_type(kind: pa.DataType) -> pa.DataType:
    """The type as which a column of CSV is read; instants may come with a zone or without."""
    return pa.string() if _is_instant(kind) else wire_type(kind)


def _is_instant(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _from_csv(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if not _is_instant(kind):
        return from_wire(column, kind)
    # Arrow reads texts with a zone or texts without; one without is UTC.
    zoned = pc.match_substring_regex(column, _ZONED)
    plain = pc.if_else(zoned, pa.scalar(None, pa.string()), column).cast(pa.timestamp(kind.unit))
    exact = pc.if_else(zoned, column, pa.scalar(None, pa.string())).cast(kind)
    return pc.coalesce(exact, plain.cast(kind))


_READERS: Final = {
    "parquet": _parquet,
    "json": _json,
    "csv": _csv,
    "log": _parquet,
    "archive": _parquet,
}


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    for first in range(0, table.num_rows, CHUNK_ROWS):
        yield from table.slice(first, CHUNK_ROWS).combine_chunks().to_batches()


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _bytes(split: FileSplit) -> bytes:
    try:
        if split.last == WHOLE:
            with pa.input_stream(split.path, compression="detect") as stream:
                data = bytes(stream.read())
        else:
            with Path(split.path).open("rb") as file:
                file.seek(split.first)
                data = file.read(split.last - split.first)
    except OSError as problem:
        _unreadable(split.path, problem)
    if split.last != WHOLE and len(data) < split.last - split.first:
        raise StreamError(
            f"the file has become shorter: {split.first + len(data)} bytes, but {split.last} "
            f"were read before",
            where=split.path,
            hint="stream files may only grow; write new data to a new file",
        )
    return data.removeprefix(_BYTE_ORDER_MARK) if not split.first else data


def _demand(wanted: Sequence[str], there: Sequence[str], path: str) -> None:
    missing = [name for name in wanted if name not in there]
    if missing:
        raise no_column(missing[0], there, where=path)


def _unreadable(path: str, problem: Exception) -> NoReturn:
    if isinstance(problem, FileNotFoundError):
        hint = "files of a stream must not be removed before the query has read them"
        raise StreamError("a file no longer exists", where=path, hint=hint) from None
    raise StreamError(
        "cannot read the file",
        where=f"{path}: {str(problem).strip()[:200]}",
        hint="check that the file is complete and holds what was declared; write a file under "
        "another name and rename it when it is done",
    ) from None


def _name_line(data: bytes, stored: pa.Schema, split: FileSplit, problem: Exception) -> NoReturn:
    """Find the first line that is to blame."""
    for number, line in enumerate(data.split(b"\n"), split.number):
        if not line.strip():
            continue
        what = ""
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                what = "a line must be a JSON object"
            else:
                for field in stored:
                    decode_value(row.get(field.name), field.type, field.name)
        except ValueError as wrong:
            what = f"not valid JSON: {wrong}"
        except MisfitError as wrong:
            what = str(wrong)
        if what:
            shown = line[:100].decode(errors="replace")
            raise StreamError(
                what,
                where=f"{split.path}, line {number}: {shown}",
                hint="correct the line, or declare the column with another type",
            ) from None
    _unreadable(split.path, problem)
