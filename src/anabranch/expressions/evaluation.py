"""Scalar expressions over columns, evaluated in-process by DuckDB."""

from __future__ import annotations

import atexit
import ctypes
import inspect
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from anabranch.expressions.functions.in_python import teach
from anabranch.expressions.functions.value import duckdb_name, type_in_duckdb, type_in_spark
from anabranch.expressions.scalar_function import ScalarFunction, own_name

_CONFIG: Final = {
    "threads": "1",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
OF_THE_ROW: Final = (duckdb.DataError, duckdb.OperationalError, duckdb.InvalidInputException)
"""What fails because of the values of a row."""

_lock = threading.Lock()
_open: list[duckdb.DuckDBPyConnection] = []
_calls: Counter[str] = Counter()
"""How often a user's function was called; those that the connection knows are in it."""
_failed: list[BaseException] = []
"""What users' functions raised in the query at hand: DuckDB passes on nothing but a text."""


def select(
    expressions: Sequence[str], rows: pa.RecordBatch, functions: Iterable[ScalarFunction] = ()
) -> pa.Table:
    """The values of DuckDB expressions, one row per row, in the order of the rows.

    Raises:
        duckdb.Error: an expression is wrong, or fails for a row.
        OperatorError: one of the users' functions that it calls fails for a row.
    """
    text = ", ".join(f"({expression}) AS v{i}" for i, expression in enumerate(expressions))
    with _lock:
        if not _open:
            connection = duckdb.connect(":memory:", config=dict(_CONFIG))
            connection.execute("SET TimeZone = 'UTC'")
            teach(connection)
            _open.append(connection)
        for function in functions:
            if own_name(function) not in _calls:
                _teach_own(_open[0], function)
        _failed.clear()
        try:
            return _open[0].from_arrow(rows).project(text).to_arrow_table()
        except duckdb.Error:
            if not _failed:
                raise
            problem = _failed.pop(0)
            raise problem from problem.__cause__


def _teach_own(connection: duckdb.DuckDBPyConnection, function: ScalarFunction) -> None:
    """Let the connection know a user's function.

    It is declared to have side effects: so it is called just where a CASE asks for it, and never
    while a query is planned.
    """
    parameters = [
        inspect.Parameter(f"a{index}", inspect.Parameter.POSITIONAL_ONLY)
        for index in range(len(function.takes))
    ]
    over = _over(function)
    over.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    connection.create_function(
        own_name(function),
        over,
        [duckdb.sqltype(duckdb_name(kind)) for _, kind in function.takes],
        duckdb.sqltype(duckdb_name(function.returns)),
        type=ARROW,
        null_handling=SPECIAL,
        side_effects=True,
    )
    _calls[own_name(function)] = 0


def _over(function: ScalarFunction) -> Callable[..., pa.Array]:
    name = own_name(function)

    def over(*columns: pa.ChunkedArray) -> pa.Array:
        _calls[name] += 1
        try:
            arrays = [whole(each).cast(kind) for each, (_, kind) in zip(columns, function.takes)]
            # Looking closely now and then costs next to nothing, and finds what rolls dice.
            found = function.apply(arrays, check=_calls[name].bit_count() == 1)
        except BaseException as problem:
            _failed.append(problem)
            raise
        return found.cast(type_in_duckdb(function.returns))

    return over


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays([pa.array([], column.type), *column.chunks])


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
    _calls.clear()


def _close() -> None:
    """Functions of ours would otherwise outlive the interpreter that they belong to."""
    for connection in _open:
        connection.close()
    _open.clear()
    _calls.clear()


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
