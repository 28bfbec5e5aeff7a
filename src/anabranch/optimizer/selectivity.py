"""Selectivity: the share of rows that satisfies a condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import tree_of

Distinct = Mapping[str, float]
"""How many different values columns have."""

VALUES: Final = 100.0
"""The assumed number of distinct values of a column without statistics."""

_EQUAL: Final = (exp.EQ, exp.NullSafeEQ)
_UNEQUAL: Final = (exp.NEQ, exp.NullSafeNEQ)
_RANGE: Final = (exp.GT, exp.GTE, exp.LT, exp.LTE)
_LEAST: Final = 1e-6


def selectivity(condition: Expression, distinct: Distinct) -> float:
    """A guess between 0 and 1, never 0: equal values are rare, ranges take a third."""
    return max(_part(tree_of(condition), distinct), _LEAST)


def values_of(expression: Expression, distinct: Distinct) -> float:
    """How many different values an expression has: those of its columns, in any combination."""
    return _values([distinct.get(name, VALUES) for name in expression.columns])


def _values(counts: list[float]) -> float:
    product = 1.0
    for count in counts:
        product *= count
    return product


def _part(node: exp.Expr, distinct: Distinct) -> float:
    match node:
        case exp.Boolean():
            return 1.0 if node.this else 0.0
        case exp.Paren():
            return _part(node.this, distinct)
        case exp.Not():
            return 1 - _part(node.this, distinct)
        case exp.And():
            return _part(node.left, distinct) * _part(node.right, distinct)
        case exp.Or():
            left, right = _part(node.left, distinct), _part(node.right, distinct)
            return left + right - left * right
        case exp.In():
            return min(len(node.expressions) * _equal([node.this], distinct), 1.0)
        case exp.Is():
            return 0.1
        case exp.Between():
            return 1 / 9
    if isinstance(node, _RANGE):
        return 1 / 3
    if isinstance(node, _EQUAL):
        return _equal([node.left, node.right], distinct)
    return 1 - _equal([node.left, node.right], distinct) if isinstance(node, _UNEQUAL) else 0.25


def _equal(sides: list[exp.Expr], distinct: Distinct) -> float:
    """One of the values of that side which has more."""
    counts = [
        _values([distinct.get(each.parts[0].name, VALUES) for each in side.find_all(exp.Column)])
        for side in sides
    ]
    return 1 / max(1.0, *counts)
