"""Sums and products that need no query engine: columns and constants of one type."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from anabranch.expressions.quick_condition import column_of, constant_of
from anabranch.expressions.scalar_sql import DIALECT

Numbers: TypeAlias = Callable[[pa.RecordBatch], "pa.Array | None"]
"""A number for every row; None where one of them is too large for its type."""

_Part: TypeAlias = Callable[[pa.RecordBatch], pa.Array]

_FUNCTIONS: Final[dict[type[exp.Expr], str]] = {
    exp.Add: "add_checked",
    exp.Sub: "subtract_checked",
    exp.Mul: "multiply_checked",
}
"""Checked matters to integers alone: doubles have infinities."""


@lru_cache(maxsize=1024)
def quick_arithmetic(sql: str, schema: pa.Schema, kind: pa.DataType) -> Numbers | None:
    """`+`, `-` and `*` as steps over whole columns; None where that is not known to be the same.

    >>> double = quick_arithmetic("price * 2", pa.schema([("price", pa.float64())]), pa.float64())
    >>> double(pa.record_batch({"price": [81.0, None]})).to_pylist()
    [162.0, None]
    """
    if kind not in (pa.int64(), pa.int32(), pa.float64()):
        return None
    part = _part(sqlglot.parse_one(sql, dialect=DIALECT), schema, kind)
    if part is None:
        return None

    def numbers(rows: pa.RecordBatch) -> pa.Array | None:
        try:
            return part(rows)
        except pa.ArrowInvalid:
            return None

    return numbers


def _part(tree: exp.Expr, schema: pa.Schema, kind: pa.DataType) -> _Part | None:
    """A column of the type, or arithmetic in which every step has such a column.

    Between constants alone the type may be a smaller one, whose limits count.
    """
    if isinstance(tree, exp.Paren):
        return _part(tree.this, schema, kind)
    if isinstance(tree, exp.Column):
        name = column_of(tree, schema)
        if name is None or schema.field(name).type != kind:
            return None
        return lambda rows: rows.column(name)
    function = _FUNCTIONS.get(type(tree))
    if function is None:
        return None
    first, second = tree.args["this"], tree.args["expression"]
    left, right = _part(first, schema, kind), _part(second, schema, kind)
    if left is not None and right is not None:
        return lambda rows: pc.call_function(function, [left(rows), right(rows)])
    value = constant_of(second if right is None else first, kind)
    if value is None:
        return None
    constant = pa.scalar(value, kind)
    if left is not None:
        return lambda rows: pc.call_function(function, [left(rows), constant])
    if right is not None:
        return lambda rows: pc.call_function(function, [constant, right(rows)])
    return None
