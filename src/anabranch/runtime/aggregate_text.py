"""Aggregates and projections as users write them: `MAX(price)`, `price * 2 AS double`."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from anabranch.algebra.aggregate_functions import AggregateCall, Function
from anabranch.algebra.expression import Expression
from anabranch.errors import QueryError

_FUNCTIONS: Final[dict[type[exp.Expr], Function]] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
}
_HINT: Final = (
    "write one aggregate: COUNT(*), COUNT(DISTINCT x), SUM(x), AVG(x), MIN(x), MAX(x), "
    "VAR_POP(x), VAR_SAMP(x), STDDEV_POP(x) or STDDEV_SAMP(x)"
)


def parse_aggregate(text: str, schema: pa.Schema) -> AggregateCall:
    """An aggregate over the columns of a schema.

    >>> parse_aggregate("Count(DISTINCT a)", pa.schema([("a", pa.int64())])).label
    'count(DISTINCT a)'

    Raises:
        QueryError: The text is not one aggregate.
    """
    tree = _parsed(text)
    call = tree.selects[0] if len(tree.selects) == 1 else None
    function = _FUNCTIONS.get(type(call)) if call is not None else None
    if call is None or function is None:
        raise QueryError(f"'{text.strip()}' is not an aggregate", hint=_HINT)
    argument = call.this
    if isinstance(argument, exp.Star) or (argument is None and function == "count"):
        return AggregateCall(function=function)
    distinct = isinstance(argument, exp.Distinct)
    if distinct:
        if len(argument.expressions) != 1:
            raise QueryError("DISTINCT takes one expression here", where=text, hint=_HINT)
        (argument,) = argument.expressions
    inner = Expression.parse(argument.sql(dialect="spark"), schema)
    return AggregateCall(function=function, argument=inner, distinct=distinct)


def parse_column(text: str, schema: pa.Schema) -> tuple[str, Expression]:
    """A column of a projection: an expression, and a name where it is not a column itself.

    >>> parse_column("a * 2 AS b", pa.schema([("a", pa.int64())]))[0]
    'b'

    Raises:
        QueryError: The expression is wrong, or has no name.
    """
    try:
        tree = _parsed(text)
    except QueryError:
        # Says better what is wrong.
        return text, Expression.parse(text, schema)
    if len(tree.selects) == 1 and isinstance(tree.selects[0], exp.Alias):
        alias = tree.selects[0]
        return alias.alias, Expression.parse(alias.this.sql(dialect="spark"), schema)
    expression = Expression.parse(text, schema)
    if expression.is_column is None:
        hint = f"give it one: '{expression.sql} AS <name>'"
        raise QueryError(f"'{expression.sql}' has no name", hint=hint)
    return expression.is_column, expression


def _parsed(text: str) -> exp.Select:
    try:
        tree = sqlglot.parse_one(f"SELECT {text}", dialect="spark")
    except SqlglotError as problem:
        first = str(problem).split("\n", 1)[0]
        raise QueryError(f"cannot read '{text.strip()}'", where=first, hint=_HINT) from None
    if not isinstance(tree, exp.Select):
        raise QueryError(f"cannot read '{text.strip()}'", hint=_HINT)
    return tree
