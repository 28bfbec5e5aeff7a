"""Take expressions apart, put them together, and move them to other columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa
import sqlglot
from sqlglot import exp

from anabranch.errors import QueryError
from anabranch.expressions.expression import Expression, named_in
from anabranch.expressions.scalar_function import ScalarFunction
from anabranch.expressions.scalar_sql import DIALECT, bind

CONDITIONS: Final = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Is, exp.Not, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Boolean),
)
"""What is true, false or unknown whatever its operands are."""

_ATOMS: Final = (exp.Column, exp.Literal, exp.Boolean, exp.Null, exp.Func, exp.Paren)
_OPERATORS: Final = (exp.Binary, exp.Unary, exp.Predicate, exp.Case)
"""Some of these are functions to sqlglot, too, and yet need parentheses."""


def tree_of(expression: Expression) -> exp.Expr:
    """The syntax tree, to be looked at; whoever changes it makes a copy first."""
    return _tree(expression.sql)


@lru_cache(maxsize=4096)
def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The conditions that all hold where a condition holds, from left to right.

    >>> bids = pa.schema([("itemID", pa.int64()), ("price", pa.float64())])
    >>> both = Expression.parse("price > 80 AND (itemID = 1 OR itemID = 2)", bids)
    >>> [part.sql for part in conjuncts(both)]
    ['price > 80', 'itemID = 1 OR itemID = 2']
    """
    parts = list(_parts(_tree(expression.sql)))
    if len(parts) == 1:
        return (expression,)
    try:
        found = tuple(_condition(part, expression) for part in parts)
    except QueryError:
        # Of a part that only Spark evaluates, nobody here knows the type.
        return (expression,)
    if any(not pa.types.is_boolean(part.type) for part in found):
        return (expression,)
    return found


def conjoin(conditions: Sequence[Expression]) -> Expression:
    """The condition that holds where all given ones do, each of them once.

    Raises:
        ValueError: There are no conditions, so that nothing says over which columns.
    """
    if not conditions:
        raise ValueError("a conjunction needs at least one condition")
    different = list(dict.fromkeys(conditions))
    if len(different) == 1:
        return different[0]
    text = " AND ".join(
        part.sql if isinstance(_tree(part.sql), (*CONDITIONS, exp.Column)) else f"({part.sql})"
        for part in different
    )
    return typed(text, different[0].schema, pa.bool_(), _functions(different))


def rebind(expression: Expression, schema: pa.Schema) -> Expression:
    """The same text over another schema that has all its columns.

    Raises:
        QueryError: A column is missing, or has a type that does not fit.
    """
    if expression.schema == schema:
        return expression
    if _same_types(expression.columns, expression.schema, expression.columns, schema):
        return typed(expression.sql, schema, expression.type, expression.functions)
    return Expression.parse(expression.sql, schema, functions=expression.functions)


def substitute(
    expression: Expression, columns: Mapping[str, Expression], schema: pa.Schema
) -> Expression:
    """An expression over the columns of a map, over the map's input: `p after f`.

    Args:
        expression: Over columns that all are keys of `columns`.
        columns: What stands for each column: expressions over `schema`.
        schema: The columns of the result.

    Raises:
        QueryError: What stands for a column does not fit its place.

    >>> bids = pa.schema([("price", pa.float64()), ("fee", pa.float64())])
    >>> total = Expression.parse("price - fee", bids)
    >>> half = Expression.parse("total / 2", pa.schema([("total", pa.float64())]))
    >>> substitute(half, {"total": total}, bids).sql
    '(price - fee) / 2'
    """
    if all(columns[name].is_column is not None for name in expression.columns):
        names = {name: str(columns[name].is_column) for name in expression.columns}
        return rename(expression, names, schema)
    trees = {name: _atom(columns[name]) for name in expression.columns}
    text = _with_columns(expression.sql, lambda name: trees[name].copy())
    used = _functions([expression, *(columns[name] for name in expression.columns)])
    return Expression.parse(text, schema, functions=used)


def rename(expression: Expression, names: Mapping[str, str], schema: pa.Schema) -> Expression:
    """The same expression over columns of other names; what is not mentioned keeps its name."""
    old = sorted(expression.columns)
    new = [names.get(name, name) for name in old]
    if new == old:
        return rebind(expression, schema)
    text = _renamed(expression.sql, tuple((name, names.get(name, name)) for name in old))
    if _same_types(old, expression.schema, new, schema):
        return typed(text, schema, expression.type, expression.functions)
    return Expression.parse(text, schema, functions=expression.functions)


@lru_cache(maxsize=8192)
def typed(
    text: str,
    schema: pa.Schema,
    kind: pa.DataType,
    functions: tuple[ScalarFunction, ...] = (),
) -> Expression:
    """An expression whose type is known: it costs a tenth of finding it out."""
    found = bind(text, schema, functions)
    if not found.columns:
        return Expression.parse(text, schema, functions=functions)
    return Expression(
        sql=found.sql,
        schema=schema,
        type=kind,
        columns=found.columns,
        is_column=found.is_column,
        duckdb_sql=found.value.text if found.value is not None else "",
        constant=None,
        may_fail=found.value is not None and found.value.fails,
        spark_only=found.why_not is not None,
        functions=found.functions,
    )


def _parts(tree: exp.Expr) -> list[exp.Expr]:
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        return [*_parts(tree.left), *_parts(tree.right)]
    return [tree]


def _condition(tree: exp.Expr, whole: Expression) -> Expression:
    text, functions = tree.sql(dialect=DIALECT), whole.functions
    if isinstance(tree, CONDITIONS):
        return typed(text, whole.schema, pa.bool_(), named_in(text, functions))
    return Expression.parse(text, whole.schema, functions=functions)


def _functions(expressions: Sequence[Expression]) -> tuple[ScalarFunction, ...]:
    """What several expressions call, as it is kept in one."""
    found = {each for expression in expressions for each in expression.functions}
    names = {each.name for each in found}
    if len(names) < len(found):
        # One was replaced after a part of the plan was made.
        raise QueryError(
            f"two different functions have the same name: {', '.join(sorted(names))}",
            hint="create all streams of the query again after replacing a function",
        )
    return tuple(sorted(found, key=lambda each: each.name))


def _same_types(
    names: Sequence[str] | frozenset[str],
    schema: pa.Schema,
    others: Sequence[str] | frozenset[str],
    other_schema: pa.Schema,
) -> bool:
    return all(
        other in other_schema.names and schema.field(name).type == other_schema.field(other).type
        for name, other in zip(names, others)
    )


@lru_cache(maxsize=4096)
def _renamed(sql: str, names: tuple[tuple[str, str], ...]) -> str:
    new = dict(names)
    return _with_columns(sql, lambda name: _column(new[name]))


def _with_columns(sql: str, stand_in: Callable[[str], exp.Expr]) -> str:
    """The text with something else in place of each column (`a` of `a.b.c`)."""

    def replace(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        first, *path = node.parts
        built = stand_in(first.name)
        for part in path:
            built = exp.Dot(this=built, expression=exp.to_identifier(part.name, quoted=True))
        return built

    return _tree(sql).transform(replace).sql(dialect=DIALECT)


def _atom(expression: Expression) -> exp.Expr:
    tree = _tree(expression.sql)
    bare = isinstance(tree, _ATOMS) and not isinstance(tree, _OPERATORS)
    return tree if bare or isinstance(tree, exp.Paren) else exp.paren(tree.copy())


def _column(name: str) -> exp.Expr:
    return exp.column(exp.to_identifier(name, quoted=True))


@lru_cache(maxsize=4096)
def _tree(sql: str) -> exp.Expr:
    tree = sqlglot.parse_one(sql, dialect=DIALECT, into=exp.Condition)
    assert isinstance(tree, exp.Expr)
    return tree.unnest()
