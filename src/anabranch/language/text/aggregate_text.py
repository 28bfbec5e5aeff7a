"""Aggregates and projections as users write them: `MAX(price)`, `price * 2 AS double`."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from anabranch.aggregates.call import AggregateCall
from anabranch.aggregates.sql import SqlCall
from anabranch.aggregates.table import FORMS, how_to_write
from anabranch.errors import QueryError
from anabranch.expressions.expression import Expression, ParseScalar
from anabranch.expressions.spark_text import intervals, rewrite
from anabranch.language.text.dialect import Anabranch
from anabranch.language.text.script import Script
from anabranch.language.text.unused import refuse_unused


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
        raise QueryError(f"'{text.strip()}' is not an aggregate", hint=how_to_write(text))
    return bind_aggregate(tree.selects[0], text, schema, parse)


def bind_aggregate(
    call: exp.Expr, text: str, schema: pa.Schema, parse: ParseScalar = Expression.parse
) -> AggregateCall:
    """An aggregate that was parsed; `text` is how it is written, `parse` reads what is in it.

    Raises:
        QueryError: It is not one aggregate.
    """
    order = call.expression if isinstance(call, exp.WithinGroup) else None
    tree = call.this if isinstance(call, exp.WithinGroup) else call
    function, form = FORMS.get(type(tree), (None, None))
    if function is None or form is None or (order is not None and not form.within_group):
        raise QueryError(f"'{text.strip()}' is not an aggregate", hint=how_to_write(text))
    bind = partial(_over, parse, schema)
    parts = function.read(SqlCall(tree, order, text, bind, hint=f"write {function.example}"))
    return AggregateCall(
        function=function.name,
        argument=parts.argument,
        distinct=parts.distinct,
        fraction=parts.fraction,
        separator=parts.separator,
    )


def _over(parse: ParseScalar, schema: pa.Schema, tree: exp.Expr) -> Expression:
    return parse(rewrite(tree, intervals).sql(dialect="spark"), schema)


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
        selected = tree.selects[0] if len(tree.selects) == 1 else None
        if isinstance(selected, exp.Column | exp.Dot) and selected.name:
            # The field of a struct keeps its name, as in Spark: http.path is path.
            return selected.name, expression
        hint = f"give it one: '{expression.sql} AS <name>'"
        raise QueryError(f"'{expression.sql}' has no name", hint=hint)
    return expression.is_column, expression


def _parsed(text: str) -> exp.Select:
    try:
        tree = parse_text(f"SELECT {text}")
    except SqlglotError as problem:
        first = str(problem).split("\n", 1)[0]
        raise QueryError(
            f"cannot read '{text.strip()}'", where=first, hint=how_to_write(text)
        ) from None
    if not isinstance(tree, exp.Select):
        raise QueryError(f"cannot read '{text.strip()}'", hint=how_to_write(text))
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
