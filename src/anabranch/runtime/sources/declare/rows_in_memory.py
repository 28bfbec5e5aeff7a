"""Rows of this process as a source: pandas, Polars and Arrow tables, and lists of dictionaries.

They are written to a Parquet file, which every engine and every Spark worker reads. Its name is a
hash of its content: a query that is started again over the same rows finds the file that it knows,
and resumes.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import PlanError
from anabranch.runtime.sources.files.listing import ROWS_FOLDER
from anabranch.runtime.sources.rows import in_microseconds

_LARGE = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def is_in_memory(source: object) -> bool:
    """Whether these are rows of this process, not a path and not a DataFrame of Spark."""
    if hasattr(source, "isStreaming") or isinstance(source, str | Path):
        return False
    return _is_rows(source) or hasattr(source, "__arrow_c_stream__")


def _is_rows(source: object) -> bool:
    return isinstance(source, list) and all(isinstance(row, dict) for row in source)


def refuse_more_rows(source: object, ends: object, *, where: str) -> None:
    """Refuse `ends=False` of rows that are all there: nothing can be added to them.

    Raises:
        PlanError: It was declared.
    """
    all_there = is_in_memory(source) or getattr(source, "isStreaming", None) is False
    if ends is False and all_there:
        raise PlanError(
            "rows that are all there end with the last one",
            where=f"{where}: ends=False",
            hint="leave ends out; for a stream that goes on pass a folder, to which files are "
            "added, or a DataFrame of spark.readStream",
        )


def stored_rows(
    source: Any, times: Sequence[str | None], *, where: str, needs_time: bool = True
) -> str:
    """The path of a file with the rows; columns in `times` that are texts become timestamps.

    With `needs_time` the first of them has to be named, unless the rows are elements.

    Raises:
        PlanError: There are no rows to tell columns from, or their values do not fit together.
    """
    if _is_rows(source) and not source:
        raise PlanError(
            "a list without rows has no columns",
            where=where,
            hint="pass an Arrow table, whose schema names the columns: schema.empty_table()",
        )
    try:
        table = pa.Table.from_pylist(source) if _is_rows(source) else pa.table(source)
        table = _with_plain_types(table, [name for name in times if name is not None])
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as problem:
        raise PlanError(
            "the rows do not fit together",
            where=f"{where}: {str(problem).splitlines()[0][:200]}",
            hint="give every column one type; times have at most microseconds",
        ) from None
    if needs_time and times[0] is None and "kind" not in table.column_names:
        raise PlanError(
            "rows need a column with their time",
            where=f"{where}: columns {', '.join(table.column_names)}",
            hint="name it: start='at'; or start=ab.ARRIVAL for the time at which they are read",
        )
    return str(_written(table.replace_schema_metadata(None)))


def _with_plain_types(table: pa.Table, times: Sequence[str]) -> pa.Table:
    fields = []
    for field in table.schema:
        kind = _LARGE.get(field.type, field.type)
        if field.name in times and pa.types.is_string(kind):
            kind = pa.timestamp("us")
        elif pa.types.is_timestamp(kind):
            # Pandas counts nanoseconds; times have microseconds here, as in Spark.
            kind = pa.timestamp("us", kind.tz)
        elif pa.types.is_dictionary(kind):
            kind = _LARGE.get(kind.value_type, kind.value_type)
        elif pa.types.is_large_list(kind):
            kind = pa.list_(kind.value_type)
        fields.append(field.with_type(kind))
    columns = [
        in_microseconds(column) if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, names=table.column_names).cast(pa.schema(fields))


def _written(table: pa.Table) -> Path:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    content = sink.getvalue()
    name = hashlib.sha256(content).hexdigest()[:32]
    folder = Path(tempfile.gettempdir()) / f"{ROWS_FOLDER}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / f"{name}.parquet"
    if not file.exists():
        part = folder / f"{name}.{os.getpid()}.part"
        part.write_bytes(content)
        part.replace(file)
    return file
