"""What moving conditions and columns through an operator has in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.errors import QueryError
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjoin, conjuncts, rebind, rename, substitute
from anabranch.optimizer.failing import may_fail

MOST_TEXT: Final = 2_000
"""An expression that would become longer than this is not put together."""

Columns = tuple[tuple[str, Expression], ...]


def part(
    predicate: Expression, goes: Callable[[Expression], bool], *, same_rows: bool
) -> tuple[list[Expression], list[Expression]]:
    """The conjuncts that may be evaluated below an operator, and those that stay above it.

    One that may fail must not see rows it did not see before. So it goes only where the operator
    shows every row that it reads (`same_rows`), and only after all conjuncts before it, which may
    be what guards it.
    """
    moving: list[Expression] = []
    staying: list[Expression] = []
    for each in conjuncts(predicate):
        safe = not may_fail(each) or (same_rows and not staying)
        (moving if safe and goes(each) else staying).append(each)
    return moving, staying


def filtered(node: Node, conditions: Sequence[Expression]) -> Node:
    """A filter by conditions over columns the node has; the node itself if there are none."""
    if not conditions:
        return node
    return Filter(input=node, predicate=rebind(conjoin(conditions), node.schema))


def composed(
    expression: Expression, columns: Mapping[str, Expression], schema: pa.Schema
) -> Expression | None:
    """`p after f`; None where it would be too long, not typed as before, or no expression."""
    texts = {name: columns[name].sql for name in expression.columns}
    if len(expression.sql) + sum(map(len, texts.values())) > MOST_TEXT:
        return None
    try:
        found = substitute(expression, columns, schema)
    except QueryError:
        # A constant in place of a column may not fit: `c > 5` where c is NULL.
        return None
    return found if found.type == expression.type and len(found.sql) <= MOST_TEXT else None


def plain_columns(columns: Columns) -> dict[str, str] | None:
    """For each new name the column it was; None if something is computed."""
    found = {name: each.is_column for name, each in columns}
    return None if None in found.values() else {name: str(old) for name, old in found.items()}


def renaming(columns: Columns, over: Node) -> dict[str, str] | None:
    """For each column of a node its new name, if a map keeps every column exactly once."""
    plain = plain_columns(columns)
    if plain is None or sorted(plain.values()) != sorted(over.schema.names):
        return None
    return {old: new for new, old in plain.items()}


def renamed(expression: Expression, names: Mapping[str, str], over: Node) -> Expression:
    """An expression over the columns of a node that were called differently before."""
    return rename(expression, names, over.schema)


def projected(node: Node, names: Sequence[str]) -> Node:
    """Only some columns of a node, under their names."""
    kept = [name for name in node.schema.names if name in names]
    columns = tuple((name, Expression.column(name, node.schema)) for name in kept)
    return Map(input=node, columns=columns)


def mapped(map_: Map, over: Node) -> Map:
    """The same columns over a node that has those of the map's input."""
    columns = tuple((name, rebind(each, over.schema)) for name, each in map_.columns)
    return Map(input=over, columns=columns)
