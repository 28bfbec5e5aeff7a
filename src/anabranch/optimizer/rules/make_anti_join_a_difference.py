"""An anti-join that compares whole rows."""

from __future__ import annotations

from sqlglot import exp

from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjuncts, tree_of


def make_anti_join_a_difference(node: Node) -> Node | None:
    """Anti join(x, y, all columns <=> all columns) -> Strict difference(x, y) (K22).

    Only with `<=>`, for which NULL equals NULL as it does between payloads.
    """
    match node:
        case Join(kind="anti", left=x, right=y, predicate=p) if p is not None:
            partners = dict(filter(None, (_pair(each, x) for each in conjuncts(p))))
            whole = len(conjuncts(p)) == len(partners) == len(x.schema) == len(y.schema)
            if not whole or set(partners.values()) != set(y.schema.names):
                return None
            kinds = [(field.type, y.schema.field(partners[field.name]).type) for field in x.schema]
            if all(mine == theirs for mine, theirs in kinds):
                columns = tuple(
                    (name, Expression.column(partners[name], y.schema)) for name in x.schema.names
                )
                renamed = Map(input=y, columns=columns)
                return SetOperation(kind="strict difference", left=x, right=renamed)
    return None


def _pair(condition: Expression, left: Node) -> tuple[str, str] | None:
    tree = tree_of(condition)
    if not isinstance(tree, exp.NullSafeEQ) or len(condition.columns) != 2:
        return None
    sides = [side.unnest() for side in (tree.left, tree.right)]
    if not all(isinstance(side, exp.Column) and len(side.parts) == 1 for side in sides):
        return None
    mine, theirs = (side.name for side in sides)
    if theirs in left.schema.names:
        mine, theirs = theirs, mine
    in_left = mine in left.schema.names and theirs not in left.schema.names
    return (mine, theirs) if in_left else None
