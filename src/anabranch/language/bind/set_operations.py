"""UNION, EXCEPT and INTERSECT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.language.names.context import Context
from anabranch.language.text.types import common_type, type_name

BindQuery: TypeAlias = Callable[[exp.Query, Context], Node]


def bind_set_operation(query: exp.SetOperation, context: Context, bind: BindQuery) -> Node:
    """Two queries put together; without ALL every row is there once at most.

    UNION ALL adds multiplicities up, EXCEPT ALL subtracts, INTERSECT ALL takes the smaller one.
    """
    parts = _flattened(query) if isinstance(query, exp.Union) else [query.this, query.expression]
    bound = [bind(_plain(part), context) for part in parts]
    nodes = aligned(bound, parts, query.key.upper(), context)
    distinct = bool(query.args.get("distinct"))
    match query:
        case exp.Union():
            union = Union(inputs=tuple(nodes))
            return Distinct(input=union) if distinct else union
        case exp.Except():
            left, right = (Distinct(input=node) for node in nodes) if distinct else nodes
            return SetOperation(kind="difference", left=left, right=right)
        case exp.Intersect():
            both = SetOperation(kind="intersection", left=nodes[0], right=nodes[1])
            return Distinct(input=both) if distinct else both
    raise context.wrong(f"{query.key.upper()} is not supported", query, "use UNION ALL")


def aligned(
    nodes: Sequence[Node], parts: Sequence[exp.Expr], word: str, context: Context
) -> list[Node]:
    """The sides of a set operation with the names of the first one, and types that hold both.

    Raises:
        QueryError: They have different numbers of columns, or types that do not go together.
    """
    names, types = nodes[0].schema.names, list(nodes[0].schema.types)
    for node, part in zip(nodes[1:], parts[1:]):
        types = _common(names, types, node, word, part, context)
    return [_aligned(node, names, types) for node in nodes]


def _flattened(union: exp.Union) -> list[exp.Expr]:
    """The parts of unions of one kind."""
    found: list[exp.Expr] = []
    for part in (union.this, union.expression):
        plain = _plain(part)
        same = isinstance(plain, exp.Union) and bool(plain.args.get("distinct")) == bool(
            union.args.get("distinct")
        )
        bare = same and not any(plain.args.get(key) for key in ("with_", "limit", "order"))
        if bare and isinstance(plain, exp.Union):
            found += _flattened(plain)
        else:
            found.append(part)
    return found


def _plain(part: exp.Expr) -> exp.Query:
    while isinstance(part, exp.Subquery) and not any(
        part.args.get(key) for key in ("limit", "order", "with_")
    ):
        part = part.this
    assert isinstance(part, exp.Query)
    return part


def _common(
    names: list[str],
    types: list[pa.DataType],
    node: Node,
    word: str,
    part: exp.Expr,
    context: Context,
) -> list[pa.DataType]:
    if len(node.schema) != len(types):
        raise context.wrong(
            f"the sides of {word} have {len(types)} and {len(node.schema)} columns",
            part,
            f"select the same number on both sides; the first has: {', '.join(names)}",
        )
    found: list[pa.DataType] = []
    for name, mine, other in zip(names, types, node.schema):
        common = common_type(mine, other.type)
        if common is None:
            raise context.wrong(
                f"column '{name}' is {type_name(mine)} on one side of {word} and "
                f"{type_name(other.type)} on the other",
                part,
                f"cast one of them: CAST({other.name} AS {type_name(mine)})",
            )
        found.append(common)
    return found


def _aligned(node: Node, names: list[str], types: list[pa.DataType]) -> Node:
    """The same columns under the names and types that the result has."""
    columns: list[tuple[str, Expression]] = []
    for name, kind, old in zip(names, types, node.schema):
        value = Expression.column(old.name, node.schema)
        if old.type != kind:
            quoted = old.name.replace("`", "``")
            value = Expression.parse(f"CAST(`{quoted}` AS {type_name(kind)})", node.schema)
        columns.append((name, value))
    if all(value.is_column == name for name, value in columns):
        return node
    return Map(input=node, columns=tuple(columns))
