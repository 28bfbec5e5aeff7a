"""To be below one of many is to be below the largest of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa
from sqlglot import exp, parse_one

from anabranch.aggregates.call import AggregateCall, Function
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.count_window import has_order
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjuncts, tree_of
from anabranch.expressions.scalar_sql import DIALECT
from anabranch.optimizer.failing import may_fail

_LARGEST: Final[Mapping[type[exp.Expr], Function]] = {
    exp.LT: "max",
    exp.LTE: "max",
    exp.GT: "min",
    exp.GTE: "min",
}
_MIRRORED: Final[Mapping[type[exp.Expr], type[exp.Expr]]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}


def compare_with_extreme(node: Node) -> Node | None:
    """Semi join(x, y, a < b) -> Semi join(x, Aggregate(y, max(b)), a < max), likewise anti.

    The whole predicate must be one comparison, a over x and b over y; above, it is the minimum.
    """
    if not isinstance(node, Join) or node.kind not in ("semi", "anti") or node.predicate is None:
        return None
    if node.right.properties.single or len(conjuncts(node.predicate)) != 1:
        return None
    tree = tree_of(node.predicate)
    parse = partial(Expression.parse, functions=node.predicate.functions)
    kind = type(tree)
    if kind not in _LARGEST:
        return None
    assert isinstance(tree, exp.Binary)
    sides = (tree.args["this"], tree.args["expression"])
    mine, theirs = (side.sql(dialect=DIALECT) for side in sides)
    names = {side: parse(side, node.both).columns for side in (mine, theirs)}
    if _is_over(names[theirs], node.left) and _is_over(names[mine], node.right):
        mine, theirs, kind = theirs, mine, _MIRRORED[kind]
    elif not (_is_over(names[mine], node.left) and _is_over(names[theirs], node.right)):
        return None
    value = parse(theirs, node.right.schema)
    if may_fail(value) or not has_order(value.type):
        return None
    name = "extreme"
    while name in node.left.schema.names:
        name += "_"
    call = AggregateCall(function=_LARGEST[kind], argument=value)
    extreme = Aggregation(input=node.right, aggregates=((name, call),))
    both = pa.schema([*node.left.schema, *extreme.schema])
    condition = kind(
        this=parse_one(mine, dialect=DIALECT),
        expression=exp.column(name),
    )
    predicate = parse(condition.sql(dialect=DIALECT), both)
    return replace(node, right=extreme, predicate=predicate, broadcast="right")


def _is_over(columns: frozenset[str], side: Node) -> bool:
    return bool(columns) and columns <= set(side.schema.names)
