"""Scalar expressions over columns, evaluated in-process by DuckDB."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import threading
from collections.abc import Iterable, Sequence
from typing import Final

import duckdb
import pyarrow as pa

from anabranch.algebra.functions.in_python import teach
from anabranch.algebra.functions.value import type_in_duckdb, type_in_spark

_CONFIG: Final = {
    "threads": "1",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_lock = threading.Lock()
_open: list[duckdb.DuckDBPyConnection] = []


def select(expressions: Sequence[str], rows: pa.RecordBatch) -> pa.Table:
    """The values of DuckDB expressions, one row per row, in the order of the rows.

    Raises:
        duckdb.Error: an expression is wrong, or fails for a row.
    """
    text = ", ".join(f"({expression}) AS v{i}" for i, expression in enumerate(expressions))
    with _lock:
        if not _open:
            connection = duckdb.connect(":memory:", config=dict(_CONFIG))
            connection.execute("SET TimeZone = 'UTC'")
            teach(connection)
            _open.append(connection)
        return _open[0].from_arrow(rows).project(text).to_arrow_table()


def numbered(
    columns: Iterable[str], schema: pa.Schema, rows: pa.RecordBatch, length: int
) -> pa.RecordBatch:
    """Columns under the names DuckDB knows them by, as names in a schema may be anything.

    A batch without columns would have no length, so there is always one more. Types become those
    that Spark reads such columns as.
    """
    numbers = {name: schema.get_field_index(name) for name in sorted(columns)}
    names = [f"__c{number}" for number in numbers.values()]
    arrays = [_for_duckdb(rows.column(name)) for name in numbers]
    return pa.RecordBatch.from_arrays([*arrays, pa.nulls(length)], names=[*names, "nothing"])


def _for_duckdb(column: pa.Array) -> pa.Array:
    kind = type_in_spark(column.type)
    wanted = column.type if kind is None else type_in_duckdb(kind)
    return column if column.type == wanted else column.cast(wanted)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The usual type among those that hold the same values: `string` for `large_string`."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_struct(kind):
        fields = [kind.field(position) for position in range(kind.num_fields)]
        return pa.struct([(field.name, plain_type(field.type)) for field in fields])
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(plain_type(kind.value_type))
    return kind


def explain_failure(error: duckdb.Error, names: Sequence[str]) -> str:
    """DuckDB's complaint in one line, with the names the user knows."""
    line = str(error).strip().split("\n", 1)[0]
    line = re.sub(r"^[A-Z][A-Za-z -]* Error: | Use TRY\(.*", "", line)
    return re.sub(r"\b__c([0-9]+)\b", lambda found: names[int(found.group(1))], line)


def _after_fork() -> None:
    """A forked process makes a connection of its own and never closes the one it inherited."""
    global _lock
    _lock = threading.Lock()
    for connection in _open:
        # Closing it would wait for ever for a thread that does not exist in this process.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    _open.clear()


def _close() -> None:
    """Functions of ours would otherwise outlive the interpreter that they belong to."""
    for connection in _open:
        connection.close()
    _open.clear()


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
