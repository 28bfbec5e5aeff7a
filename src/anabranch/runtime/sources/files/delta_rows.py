"""Rows of a file of a Delta table: with columns it lacks, and as changes where it tells them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.kernels.contract.column_names import END, NEW_END
from anabranch.runtime.sources.rows import instants
from anabranch.runtime.sources.spec import Shape

Change: TypeAlias = Literal["", "delete", "feed", "revision", "corrections"]
"""What rows of a file are: rows of the table, rows taken out of it, or rows that say which."""

KIND: Final = "__kind"
OWN: Final = pa.schema([(KIND, pa.string()), (END, pa.int64()), (NEW_END, pa.int64())])
"""The columns that make elements of changes; no file has them."""

_TYPE: Final = "_change_type"
_GONE: Final = ("delete", "update_preimage")


def read_delta(
    file: pq.ParquetFile,
    groups: range,
    stored: pa.Schema,
    shape: Shape,
    values: Mapping[str, str | None],
    change: Change,
) -> Iterator[pa.RecordBatch]:
    """The rows of some row groups.

    Columns that came to the table later are NULL in older files; those by which the table is
    partitioned are not in its files at all.

    Args:
        file: The file.
        groups: Which row groups.
        stored: The columns to give, times included.
        shape: Which of them are times; with `KIND` rows become elements: a row that was taken away
            is an adjust to its start.
        values: What the log says about the columns by which the table is partitioned.
        change: What the rows are.
    """
    there = set(file.schema_arrow.names) - set(values)
    names = [field.name for field in stored if field.name in there and field.name not in OWN.names]
    wanted = [*names, _TYPE] if change == "feed" else names
    for group in groups:
        count = file.metadata.row_group(group).num_rows
        table = file.read_row_group(group, columns=wanted, use_threads=False).combine_chunks()
        found = {name: _column(table, name) for name in names}
        for field in stored:
            if field.name in values:
                found[field.name] = _constant(values[field.name], field.type, count)
            elif field.name not in found:
                found[field.name] = pa.nulls(count, field.type)
        if shape.kind == KIND:
            found |= _changes(found, shape, _gone(table, change, count))
        arrays = [found[field.name] for field in stored]
        yield pa.RecordBatch.from_arrays(arrays, names=stored.names)


def _changes(found: Mapping[str, pa.Array], shape: Shape, gone: pa.Array) -> dict[str, pa.Array]:
    """What makes elements of rows: a point ends one step behind its start."""
    assert shape.start is not None
    rows = pa.RecordBatch.from_arrays([found[shape.start]], names=[shape.start])
    start, given = instants(rows, shape.start, "a Delta table")
    times = {NEW_END: pa.array(start, mask=~given), END: pa.array(start + 1, mask=~given)}
    kinds = pc.if_else(gone, pa.scalar("adjust"), pa.scalar("insert"))
    return {KIND: kinds, **times}


def _gone(table: pa.Table, change: Change, count: int) -> pa.Array:
    """Which rows were taken away."""
    if change == "feed":
        return pc.is_in(_column(table, _TYPE), value_set=pa.array(_GONE))
    return pa.array(np.full(count, change == "delete"))


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _constant(text: str | None, kind: pa.DataType, count: int) -> pa.Array:
    """A column with one value, as the log writes it: an empty text is NULL, a timestamp is UTC."""
    value = pa.scalar(text or None, pa.string())
    if text and pa.types.is_timestamp(kind):
        value = pa.scalar(text.removesuffix("Z")).cast(pa.timestamp(kind.unit))
    return pa.repeat(value.cast(kind), count)
