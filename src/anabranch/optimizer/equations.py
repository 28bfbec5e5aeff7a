"""Equal columns of both sides of a join."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from anabranch.algebra.join import Join
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjuncts, tree_of


def equations(join: Join) -> list[tuple[str, str]]:
    """Pairs of columns, left and right, that the predicate says are equal.

    Only columns of one type count, and not floats: 0.0 and -0.0 are equal, and yet an expression
    may tell them apart.
    """
    if join.predicate is None:
        return []
    found = (_equation(part, join) for part in conjuncts(join.predicate))
    return [pair for pair in found if pair is not None]


def equation_of(condition: Expression) -> tuple[str, str] | None:
    """Both columns of `a = b`, in the order of the text."""
    tree = tree_of(condition)
    if not isinstance(tree, exp.EQ) or len(condition.columns) != 2:
        return None
    sides = [side.unnest() for side in (tree.left, tree.right)]
    if not all(isinstance(side, exp.Column) and len(side.parts) == 1 for side in sides):
        return None
    kinds = [condition.schema.field(side.name).type for side in sides]
    if kinds[0] != kinds[1] or pa.types.is_floating(kinds[0]) or pa.types.is_nested(kinds[0]):
        return None
    return sides[0].name, sides[1].name


def _equation(condition: Expression, join: Join) -> tuple[str, str] | None:
    pair = equation_of(condition)
    if pair is None:
        return None
    first, second = pair
    left, right = join.left.schema.names, join.right.schema.names
    if first in left and second in right:
        return first, second
    return (second, first) if first in right and second in left else None
