"""What Spark may compute in a session of the user, whatever the settings of that session are.

A session has a time zone, a mode for casts and overflows (ANSI), and ways to read texts. What is
pushed down to a DataFrame runs under them, while workers always compute in UTC and with ANSI's
rules. So only what no setting can change is pushed down as it is: columns, compared with each other
or with constants of their own type. It is built without text, which settings could read otherwise.

What Spark alone can evaluate is analysed under settings of ours: Spark's expressions remember them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import pyarrow as pa
import sqlglot
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.utils import is_remote
from sqlglot import exp

from anabranch.errors import PlanError
from anabranch.expressions.quick_condition import column_of, constant_of
from anabranch.expressions.scalar_sql import DIALECT

SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
}
"""The settings under which expressions mean what they mean in workers."""

Condition: TypeAlias = Callable[[], Column]
"""Makes a condition for Spark, which has to be there by then."""

_LOCK: Final = threading.RLock()
_COMPARISONS: Final[dict[type[exp.Expr], Callable[[Any, Any], Any]]] = {
    exp.EQ: lambda a, b: a == b,
    exp.NEQ: lambda a, b: a != b,
    exp.LT: lambda a, b: a < b,
    exp.LTE: lambda a, b: a <= b,
    exp.GT: lambda a, b: a > b,
    exp.GTE: lambda a, b: a >= b,
}


def native_condition(sql: str, types: pa.Schema) -> Condition | None:
    """The condition for Spark; None where settings of a session could change what it says.

    Args:
        sql: The text of the condition.
        types: The columns that the DataFrame has as they are declared, with their types.
    """
    return _condition(sqlglot.parse_one(sql, dialect=DIALECT), types)


@contextmanager
def pinned(session: SparkSession) -> Iterator[None]:
    """Analyse DataFrames of a session under `SETTINGS`; it keeps its own for everything else.

    Raises:
        PlanError: The session is on the other side of a connection and has other settings: it
            analyses plans later, when this is over.
    """
    with _LOCK:
        own = {name: session.conf.get(name, None) for name in SETTINGS}
        unlike = {name: value for name, value in SETTINGS.items() if own[name] != value}
        if unlike and is_remote():
            name, value = next(iter(unlike.items()))
            raise PlanError(
                "the query has an expression that only Spark evaluates, and settings of the "
                "session change its meaning",
                where=f"{name} = {own[name]}",
                hint=f"spark.conf.set('{name}', '{value}'), or write the expression with functions "
                "that workers have",
            )
        try:
            for name, value in unlike.items():
                session.conf.set(name, value)
            yield
        finally:
            for name in unlike:
                before = own[name]
                if before is None:
                    session.conf.unset(name)
                else:
                    session.conf.set(name, before)


def _condition(tree: exp.Expr, types: pa.Schema) -> Condition | None:
    match tree:
        case exp.Paren():
            return _condition(tree.this, types)
        case exp.And() | exp.Or():
            left, right = _condition(tree.left, types), _condition(tree.right, types)
            if left is None or right is None:
                return None
            if isinstance(tree, exp.And):
                return lambda: left() & right()
            return lambda: left() | right()
        case exp.Not():
            inner = _condition(tree.this, types)
            return None if inner is None else lambda: ~inner()
        case exp.Is(this=exp.Column(), expression=exp.Null()):
            column = column_of(tree.this, types)
            return None if column is None else lambda: _column(column).isNull()
        case exp.Column():
            name = column_of(tree, types)
            if name is None or not pa.types.is_boolean(types.field(name).type):
                return None
            return lambda: _column(name)
    comparison = _COMPARISONS.get(type(tree))
    return None if comparison is None else _compared(comparison, tree, types)


def _compared(
    comparison: Callable[[Any, Any], Any], tree: exp.Expr, types: pa.Schema
) -> Condition | None:
    """A comparison, if both sides have one type.

    NaN is more than every number, also to Spark. But files of Parquet say between which numbers a
    group of rows is without counting NaN, and Spark's reader skips the group: of 1.5 and NaN it
    finds none that is `> 1.5`. Naming NaN keeps the comparison (and its negation) from the reader.
    """
    sides = tree.args["this"], tree.args["expression"]
    names = [column_of(each, types) if isinstance(each, exp.Column) else None for each in sides]
    kinds = [types.field(name).type for name in names if name is not None]
    if not kinds or any(kind != kinds[0] or not _has_one_order(kind) for kind in kinds):
        return None
    constants = [
        None if name is not None else constant_of(each, kinds[0])
        for name, each in zip(names, sides)
    ]
    if any(name is None and value is None for name, value in zip(names, constants)):
        return None

    def compared() -> Column:
        found: Column = comparison(
            *(
                _column(name) if name is not None else sf.lit(value)
                for name, value in zip(names, constants)
            )
        )
        return found

    if kinds[0] != pa.float64():
        return compared
    if None not in names:
        return None
    [column] = [name for name in names if name is not None]
    above = (exp.GT, exp.GTE) if names[0] is not None else (exp.LT, exp.LTE)
    if isinstance(tree, (exp.NEQ, *above)):
        return lambda: compared() | sf.isnan(_column(column))
    return lambda: compared() & ~sf.isnan(_column(column))


def _has_one_order(kind: pa.DataType) -> bool:
    """Whether Spark and workers compare values of a type alike, in every session."""
    is_ = pa.types
    return bool(
        is_.is_signed_integer(kind)
        or kind == pa.float64()
        or is_.is_string(kind)
        or is_.is_boolean(kind)
        or is_.is_date32(kind)
        or is_.is_timestamp(kind)
    )


def _column(name: str) -> Column:
    return sf.col("`" + name.replace("`", "``") + "`")
