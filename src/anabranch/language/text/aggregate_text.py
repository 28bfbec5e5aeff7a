"""Aggregates and projections as users write them: `MAX(price)`, `price * 2 AS double`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Final, TypeAlias

import pyarrow as pa
import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from anabranch.algebra.aggregate_functions import AggregateCall, Function
from anabranch.errors import QueryError
from anabranch.expressions.expression import Expression, ParseScalar
from anabranch.expressions.spark_text import intervals, rewrite
from anabranch.language.text.dialect import Anabranch
from anabranch.language.text.script import Script
from anabranch.language.text.unused import refuse_unused

Bind: TypeAlias = Callable[[exp.Expr], Expression]
"""How an argument is read."""

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
    exp.Median: "median",
    exp.Quantile: "percentile",
    exp.PercentileCont: "percentile",
    exp.PercentileDisc: "percentile_disc",
    exp.GroupConcat: "string_agg",
}
_HINT: Final = (
    "write one aggregate: COUNT(*), COUNT(DISTINCT x), SUM(x), AVG(x), MIN(x), MAX(x), "
    "VAR_POP(x), VAR_SAMP(x), STDDEV_POP(x), STDDEV_SAMP(x), MEDIAN(x), PERCENTILE(x, 0.9), "
    "PERCENTILE_DISC(x, 0.9) or STRING_AGG(x, ', ')"
)
_PERCENTILE_HINT: Final = (
    "write PERCENTILE(x, 0.9), or PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)"
)
_TEXT_HINT: Final = "write STRING_AGG(x, ', '); values stand in ascending order"


def parse_aggregate(
    text: str, schema: pa.Schema, parse: ParseScalar = Expression.parse
) -> AggregateCall:
    """An aggregate over the columns of a schema.

    >>> schema = pa.schema([("a", pa.int64())])
    >>> parse_aggregate("Count(DISTINCT a)", schema).label
    'count(DISTINCT a)'
    >>> parse_aggregate("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a * 2)", schema).label
    'percentile(a * 2, 0.5)'

    Raises:
        QueryError: The text is not one aggregate.
    """
    tree = _parsed(text)
    if len(tree.selects) != 1:
        raise QueryError(f"'{text.strip()}' is not an aggregate", hint=_HINT)
    return bind_aggregate(tree.selects[0], text, schema, parse)


def bind_aggregate(
    call: exp.Expr, text: str, schema: pa.Schema, parse: ParseScalar = Expression.parse
) -> AggregateCall:
    """An aggregate that was parsed; `text` is how it is written, `parse` reads what is in it.

    Raises:
        QueryError: It is not one aggregate.
    """
    ordered = call.expression if isinstance(call, exp.WithinGroup) else None
    if isinstance(call, exp.WithinGroup):
        call = call.this
    function = _FUNCTIONS.get(type(call))
    if ordered is not None and not isinstance(call, exp.PercentileCont | exp.PercentileDisc):
        function = None
    if function is None:
        raise QueryError(f"'{text.strip()}' is not an aggregate", hint=_HINT)
    if function in ("percentile", "percentile_disc"):
        return _parse_percentile(function, call, ordered, text, partial(_over, parse, schema))
    if function == "string_agg":
        return _parse_text(call, text, partial(_over, parse, schema))
    argument = call.this
    if isinstance(argument, exp.Star) or (argument is None and function == "count"):
        return AggregateCall(function=function)
    argument, distinct = _without_distinct(argument, text)
    inner = _over(parse, schema, argument)
    return AggregateCall(function=function, argument=inner, distinct=distinct)


def _over(parse: ParseScalar, schema: pa.Schema, tree: exp.Expr) -> Expression:
    return parse(rewrite(tree, intervals).sql(dialect="spark"), schema)


def _without_distinct(argument: exp.Expr, text: str) -> tuple[exp.Expr, bool]:
    if not isinstance(argument, exp.Distinct):
        return argument, False
    if len(argument.expressions) != 1:
        raise QueryError("DISTINCT takes one expression here", where=text, hint=_HINT)
    return argument.expressions[0], True


def _parse_percentile(
    function: Function, call: exp.Expr, ordered: exp.Expr | None, text: str, bind: Bind
) -> AggregateCall:
    """`PERCENTILE(x, p)`, or `PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x)`."""
    if ordered is None:
        argument, at = call.this, call.args.get("quantile") or call.args.get("expression")
    else:
        argument, at = _ascending(ordered, text, _PERCENTILE_HINT), call.this
    argument, distinct = _without_distinct(argument, text)
    if call.meta.get("frequencies") or _commas(text) > 1:
        # Spark's third argument; the parser would leave it out.
        raise QueryError(
            "a percentile with frequencies is not supported",
            where=text,
            hint="a row that holds several times counts several times; " + _PERCENTILE_HINT,
        )
    if at is None:
        raise QueryError(f"'{text.strip()}' does not say which percentile", hint=_PERCENTILE_HINT)
    inner = bind(argument)
    fraction = _constant(at, bind, "the fraction of a percentile", text, _PERCENTILE_HINT)
    if isinstance(fraction, bool) or not isinstance(fraction, int | float | Decimal):
        raise QueryError(
            f"{at.sql(dialect='spark')} is no fraction", where=text, hint=_PERCENTILE_HINT
        )
    if not 0 <= fraction <= 1:
        raise QueryError(
            f"there is no percentile at {fraction}",
            where=text,
            hint="a fraction lies between 0 (the smallest value) and 1 (the largest): 0.9, not 90",
        )
    return AggregateCall(
        function=function, argument=inner, distinct=distinct, fraction=float(fraction)
    )


def _parse_text(call: exp.Expr, text: str, bind: Bind) -> AggregateCall:
    """`STRING_AGG(x, ', ')`, also with an order, as long as that is the order of the values."""
    argument = call.this
    order = None
    if isinstance(argument, exp.Order):
        order, argument = _ascending(argument, text, _TEXT_HINT), argument.this
    argument, distinct = _without_distinct(argument, text)
    inner = bind(argument)
    if order is not None and bind(order) != inner:
        raise QueryError(
            "STRING_AGG orders by its own values only",
            where=text,
            hint=f"write ORDER BY {inner.sql}, or leave the order out",
        )
    given = call.args.get("separator")
    separator: object = ""
    if given is not None:
        separator = _constant(given, bind, "the separator of STRING_AGG", text, _TEXT_HINT)
    if not isinstance(separator, str):
        what = f"the separator {given.sql(dialect='spark') if given else ''} is no text"
        raise QueryError(what, where=text, hint=_TEXT_HINT)
    return AggregateCall(
        function="string_agg", argument=inner, distinct=distinct, separator=separator
    )


def _commas(text: str) -> int:
    """How many commas stand between the arguments of the call."""
    depth = found = 0
    for token in sqlglot.tokenize(text, dialect="spark"):
        kind = token.token_type.name
        depth += kind.startswith("L_") - kind.startswith("R_")
        found += kind == "COMMA" and depth == 1
    return found


def _ascending(order: exp.Expr, text: str, hint: str) -> exp.Expr:
    """The one expression that is ordered by, upwards."""
    parts = order.expressions
    if len(parts) != 1 or parts[0].args.get("desc"):
        raise QueryError("the order must be one expression, ascending", where=text, hint=hint)
    inner: exp.Expr = parts[0].this
    return inner


def _constant(part: exp.Expr, bind: Bind, what: str, text: str, hint: str) -> object:
    """The value of an expression without columns."""
    found = bind(part)
    if found.constant is None:
        raise QueryError(f"{what} must be a constant", where=text, hint=hint)
    value: object = found.constant[0].as_py()
    return value


def parse_column(
    text: str, schema: pa.Schema, parse: ParseScalar = Expression.parse
) -> tuple[str, Expression]:
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
        return text, parse(text, schema)
    if len(tree.selects) == 1 and isinstance(tree.selects[0], exp.Alias):
        alias = tree.selects[0]
        return alias.alias, parse(alias.this.sql(dialect="spark"), schema)
    expression = parse(text, schema)
    if expression.is_column is None:
        hint = f"give it one: '{expression.sql} AS <name>'"
        raise QueryError(f"'{expression.sql}' has no name", hint=hint)
    return expression.is_column, expression


def _parsed(text: str) -> exp.Select:
    try:
        tree = parse_text(f"SELECT {text}")
    except SqlglotError as problem:
        first = str(problem).split("\n", 1)[0]
        raise QueryError(f"cannot read '{text.strip()}'", where=first, hint=_HINT) from None
    if not isinstance(tree, exp.Select):
        raise QueryError(f"cannot read '{text.strip()}'", hint=_HINT)
    return tree


def parse_text(text: str) -> exp.Expr:
    """One statement in the words of queries, of which every part is used.

    Raises:
        SqlglotError: It cannot be read.
        QueryError: There is something in it that would be ignored.
    """
    tokens = sqlglot.tokenize(text, dialect=Anabranch)
    tree = sqlglot.parse_one(text, dialect=Anabranch)
    refuse_unused(tree, Script(text), tokens)
    return tree
