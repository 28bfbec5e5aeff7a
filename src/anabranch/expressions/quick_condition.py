"""Conditions that need no query engine: columns compared with constants, and what joins them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from anabranch.expressions.scalar_sql import DIALECT

Condition: TypeAlias = Callable[[pa.RecordBatch], pa.Array]
"""True, false or NULL for every row."""

_EXACT: Final = 2**53
_COMPARISONS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "equal",
    exp.NEQ: "not_equal",
    exp.LT: "less",
    exp.LTE: "less_equal",
    exp.GT: "greater",
    exp.GTE: "greater_equal",
}
_MIRRORED: Final = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}
_OPPOSITE: Final = {"greater": "less_equal", "greater_equal": "less"}


@lru_cache(maxsize=1024)
def quick_condition(sql: str, schema: pa.Schema) -> Condition | None:
    """The condition as steps over whole columns; None where that is not known to be the same.

    >>> dear = quick_condition("price > 80 AND NOT item IS NULL", pa.schema(
    ...     [("item", pa.string()), ("price", pa.float64())]))
    >>> dear(pa.record_batch({"item": ["a", None], "price": [81.0, 99.0]})).to_pylist()
    [True, False]
    """
    return condition_of(sqlglot.parse_one(sql, dialect=DIALECT), schema)


def condition_of(tree: exp.Expr, schema: pa.Schema) -> Condition | None:
    """The same of a parsed condition."""
    match tree:
        case exp.Paren():
            return condition_of(tree.this, schema)
        case exp.And() | exp.Or():
            left, right = condition_of(tree.left, schema), condition_of(tree.right, schema)
            if left is None or right is None:
                return None
            both = pc.and_kleene if isinstance(tree, exp.And) else pc.or_kleene
            return lambda rows: both(left(rows), right(rows))
        case exp.Not():
            inner = condition_of(tree.this, schema)
            return None if inner is None else lambda rows: pc.invert(inner(rows))
        case exp.Is(this=exp.Column(), expression=exp.Null()):
            name = column_of(tree.this, schema)
            return None if name is None else lambda rows: pc.is_null(rows.column(name))
        case exp.Column():
            name = column_of(tree, schema)
            if name is None or not pa.types.is_boolean(schema.field(name).type):
                return None
            return lambda rows: rows.column(name)
    comparison = _COMPARISONS.get(type(tree))
    return None if comparison is None else _comparison(comparison, tree, schema)


def _comparison(function: str, tree: exp.Expr, schema: pa.Schema) -> Condition | None:
    left, right = tree.args["this"], tree.args["expression"]
    if not isinstance(left, exp.Column):
        left, right, function = right, left, _MIRRORED.get(function, function)
    name = column_of(left, schema) if isinstance(left, exp.Column) else None
    if name is None:
        return None
    kind = schema.field(name).type
    if isinstance(right, exp.Column):
        return _between_columns(function, name, column_of(right, schema), schema)
    value = constant_of(right, kind)
    if value is None:
        return None
    constant = pa.scalar(value, kind)
    if pa.types.is_floating(kind) and function in _OPPOSITE:
        # NaN is more than every number.
        opposite = _OPPOSITE[function]
        return lambda rows: pc.invert(pc.call_function(opposite, [rows.column(name), constant]))
    return lambda rows: pc.call_function(function, [rows.column(name), constant])


def _between_columns(
    function: str, name: str, other: str | None, schema: pa.Schema
) -> Condition | None:
    """A comparison of two columns of one type, in which values have one order everywhere."""
    kind = schema.field(name).type
    is_float = kind == pa.float64()
    is_ordered = is_float or pa.types.is_signed_integer(kind) or pa.types.is_string(kind)
    if other is None or not is_ordered or schema.field(other).type != kind:
        return None

    def compare(rows: pa.RecordBatch) -> pa.Array:
        left, right = rows.column(name), rows.column(other)
        found = pc.call_function(function, [left, right])
        if not is_float:
            return found
        # NaN equals NaN, and is more than every number; what compares with NULL stays NULL.
        odd = pc.is_nan(left), pc.is_nan(right)
        either = pc.or_(*odd)
        if not pc.any(either).as_py():
            return found
        return pc.if_else(either, pc.call_function(function, [*odd]), found)

    return compare


def column_of(tree: exp.Expr, schema: pa.Schema) -> str | None:
    """The name of the column that a reference means, if there is one of that name."""
    name = str(tree.name)
    return name if schema.names.count(name) == 1 and not tree.args.get("table") else None


def constant_of(tree: exp.Expr, kind: pa.DataType) -> Any | None:
    """The value of a literal that compares with a type as it is."""
    sign = 1
    if isinstance(tree, exp.Neg):
        tree, sign = tree.this, -1
    if not isinstance(tree, exp.Literal):
        return None
    if tree.is_string:
        return tree.this if sign > 0 and pa.types.is_string(kind) else None
    if pa.types.is_signed_integer(kind) and tree.this.isdigit():
        value = sign * int(tree.this)
        return value if abs(value) < 1 << (kind.bit_width - 1) else None
    if kind == pa.float64():
        number = sign * float(tree.this)
        return number if abs(number) < _EXACT else None
    return None
