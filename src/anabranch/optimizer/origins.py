"""Where columns come from, so that a condition is known again in another plan.

A measured selectivity belongs to a condition, not to the operator that evaluated it: another order
of joins evaluates it over other columns, in another place. So a condition is called by the columns
of the sources that it is about, whatever they are called on the way:

    Join(Map(Bid, item AS i), Item, i = id)   ->   "Bid.item" = "Item.id"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

from sqlglot import exp

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.top_k import TopK
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjuncts, tree_of

MOST_COLUMNS: Final = 8
"""Of a source, the values of at most so many columns are counted."""

Origin = Callable[[str], str]
"""From a column to what it is called here."""


def origin(node: Node, column: str) -> str:
    """What a column of a plan is, in terms of sources: `Bid.item`, or how it is computed."""
    match node:
        case Source(name=name):
            return f"{name}.{column}"
        case Map(input=below, columns=columns) | Aggregation(input=below, group_by=columns):
            own = dict(columns).get(column)
            if own is not None:
                return _expression_key(own, below)
        case Join(left=left, right=right):
            return origin(left if column in left.schema.names else right, column)
    for below in node.inputs[:1]:
        if column in below.schema.names and not isinstance(node, Aggregation):
            return origin(below, column)
    return f"{node.identity.name}.{column}"


def origin_in(inputs: Sequence[Node]) -> Origin:
    """What columns of any of several plans are."""

    def found(column: str) -> str:
        return origin(next(each for each in inputs if column in each.schema.names), column)

    return found


def condition_key(conditions: Iterable[Expression], named: Origin) -> str:
    """What some conditions together are called, whatever their order and that of their sides."""
    return " AND ".join(sorted({_key(each, named) for each in conditions}))


def predicate_key(node: Filter | Join) -> str | None:
    """What the condition of a filter or a join is called; None where it has none."""
    if node.predicate is None:
        return None
    return condition_key(conjuncts(node.predicate), origin_in(node.inputs))


def telling_columns(*nodes: Node) -> dict[str, tuple[str, ...]]:
    """Per source the columns whose values decide on costs: of conditions, groups and keys."""
    found: dict[str, list[str]] = {}
    for node in dict.fromkeys(each for root in nodes for each in root.walk()):
        for part in _deciding(node):
            for name in sorted(part.columns):
                below = next((each for each in node.inputs if name in each.schema.names), None)
                leaf = None if below is None else _leaf(below, name)
                if leaf is not None and leaf[1] not in found.setdefault(leaf[0], []):
                    found[leaf[0]].append(leaf[1])
    return {name: tuple(columns[:MOST_COLUMNS]) for name, columns in found.items()}


def _deciding(node: Node) -> list[Expression]:
    match node:
        case Filter(predicate=predicate):
            return [predicate]
        case Join(predicate=predicate):
            return [] if predicate is None else [predicate]
        case Aggregation(group_by=parts) | ApplyOperator(group_by=parts):
            return [part for _, part in parts]
        case CountWindow(partition_by=parts) | TopK(partition_by=parts):
            return [part for _, part in parts]
    return []


def _leaf(node: Node, column: str) -> tuple[str, str] | None:
    """The source and its column that a column is, unchanged."""
    match node:
        case Source(name=name):
            return name, column
        case Map(input=below, columns=columns) | Aggregation(input=below, group_by=columns):
            own = dict(columns).get(column)
            return None if own is None or own.is_column is None else _leaf(below, own.is_column)
    for below in node.inputs:
        if column in below.schema.names:
            return _leaf(below, column)
    return None


def _expression_key(expression: Expression, below: Node) -> str:
    if expression.is_column is not None:
        return origin(below, expression.is_column)
    return _key(expression, lambda column: origin(below, column))


def _key(expression: Expression, named: Origin) -> str:
    names = tuple((column, named(column)) for column in sorted(expression.columns))
    return _text(expression.sql, expression, names)


@lru_cache(maxsize=4096)
def _text(_sql: str, expression: Expression, names: tuple[tuple[str, str], ...]) -> str:
    called = {column.lower(): key for column, key in names}

    def renamed(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column):
            key = called.get(part.name.lower(), part.name)
            return exp.Column(this=exp.to_identifier(key, quoted=True))
        return part

    tree = tree_of(expression).copy().transform(renamed)
    if isinstance(tree, exp.EQ):
        return " = ".join(sorted(side.sql() for side in (tree.left, tree.right)))
    return str(tree.sql())
