"""CASE expressions that need no query engine: quick conditions, constants and columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from anabranch.expressions.quick_condition import Condition, column_of, condition_of, constant_of
from anabranch.expressions.scalar_sql import DIALECT

Values: TypeAlias = Callable[[pa.RecordBatch], pa.Array]
"""A value for every row."""

_Branch: TypeAlias = Callable[[pa.RecordBatch], pa.Array | pa.Scalar]


@lru_cache(maxsize=1024)
def quick_case(sql: str, schema: pa.Schema, kind: pa.DataType) -> Values | None:
    """A searched CASE as steps over whole columns; None where that is not known to be the same.

    >>> advice = quick_case("CASE WHEN price > 80 THEN 'sell' ELSE 'buy' END", pa.schema(
    ...     [("price", pa.float64())]), pa.string())
    >>> advice(pa.record_batch({"price": [81.0, 7.0, None]})).to_pylist()
    ['sell', 'buy', 'buy']
    """
    if not sql.startswith("CASE WHEN "):
        return None
    tree = sqlglot.parse_one(sql, dialect=DIALECT)
    if not isinstance(tree, exp.Case) or tree.this is not None:
        return None
    otherwise = tree.args.get("default")
    last = _branch(exp.Null() if otherwise is None else otherwise, schema, kind)
    cases: list[tuple[Condition, _Branch]] = []
    for case in tree.args["ifs"]:
        condition, value = condition_of(case.this, schema), _branch(case.args["true"], schema, kind)
        if condition is None or value is None:
            return None
        cases.append((condition, value))
    if last is None:
        return None

    def values(rows: pa.RecordBatch) -> pa.Array:
        found = last(rows)
        for condition, value in reversed(cases):
            # What is neither true nor false goes on to the next case.
            found = pc.if_else(pc.fill_null(condition(rows), False), value(rows), found)
        return found

    return values


def _branch(tree: exp.Expr, schema: pa.Schema, kind: pa.DataType) -> _Branch | None:
    """A constant or a column, both of the type of the result."""
    if isinstance(tree, exp.Null):
        nothing = pa.scalar(None, kind)
        return lambda _: nothing
    if isinstance(tree, exp.Column):
        name = column_of(tree, schema)
        if name is None or schema.field(name).type != kind:
            return None
        return lambda rows: rows.column(name)
    value = constant_of(tree, kind)
    if value is None:
        return None
    constant = pa.scalar(value, kind)
    return lambda _: constant
