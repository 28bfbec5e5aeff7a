"""Conditions without what is decided already."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import QueryError
from anabranch.expressions.expression import Expression, named_in
from anabranch.expressions.rewriting import CONDITIONS, conjoin, conjuncts, tree_of, typed
from anabranch.expressions.scalar_sql import DIALECT

_COMPARES: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.In)


@lru_cache(maxsize=4096)
def simplified(condition: Expression) -> Expression:
    """A condition that is true for the same rows, and fails for no others.

    Constant conjuncts are evaluated, repeated ones dropped. Constants are folded where they are
    compared or combined by AND, OR and NOT, not inside arithmetic, whose type they decide.

    >>> bids = pa.schema([("price", pa.float64())])
    >>> simplified(Expression.parse("1 < 2 AND (price > 40 + 2 OR FALSE)", bids)).sql
    'price > 42'
    >>> simplified(Expression.parse("price > 1 AND 1 > 2", bids)).sql
    'FALSE'
    """
    found: list[Expression] = []
    for each in conjuncts(condition):
        folded = _folded(each)
        if folded.constant is None:
            found.extend(conjuncts(folded))
        elif folded.constant.to_pylist() != [True]:
            return Expression.parse("FALSE", condition.schema)
    return conjoin(found) if found else Expression.parse("TRUE", condition.schema)


def is_true(condition: Expression) -> bool:
    """Whether a condition is the constant TRUE."""
    return condition.constant is not None and condition.constant.to_pylist() == [True]


def _folded(condition: Expression) -> Expression:
    if condition.constant is not None or condition.is_column is not None:
        return condition
    before = tree_of(condition)
    after = _fold(before.copy(), condition).unnest()
    if after == before:
        return condition
    text = after.sql(dialect=DIALECT)
    return typed(text, condition.schema, condition.type, named_in(text, condition.functions))


def _fold(node: exp.Expr, condition: Expression) -> exp.Expr:
    """The same condition, from the leaves up without what is decided."""
    for child in list(node.iter_expressions()):
        child.replace(_fold(child, condition))
    match node:
        case exp.And() | exp.Or():
            return _decided(node)
        case exp.Not():
            return _negated(node)
        case exp.Paren(this=exp.Boolean() as decided):
            return decided
    if isinstance(node, _COMPARES) or isinstance(node.parent, _COMPARES):
        return _constant(node, condition)
    return node


def _negated(node: exp.Not) -> exp.Expr:
    inner = node.this.unnest()
    if isinstance(inner, exp.Boolean):
        return exp.false() if inner.this else exp.true()
    match inner:
        case exp.Not(this=exp.Expr() as twice) if isinstance(twice.unnest(), CONDITIONS):
            return twice
    return node


def _decided(node: exp.And | exp.Or) -> exp.Expr:
    """AND without TRUE, OR without FALSE; one that is decided by the other constant is it."""
    neutral = isinstance(node, exp.And)
    sides = [node.left.unnest(), node.right.unnest()]
    if any(isinstance(side, exp.Boolean) and side.this != neutral for side in sides):
        return exp.false() if neutral else exp.true()
    for side, other in ((node.left, node.right), (node.right, node.left)):
        # Anything but a condition may be cast to one by AND and OR.
        if isinstance(side.unnest(), exp.Boolean) and isinstance(
            other.unnest(), (*CONDITIONS, exp.Connector)
        ):
            return other
    return node


def _constant(node: exp.Expr, condition: Expression) -> exp.Expr:
    """The literal a subtree without columns amounts to, where literals have its type."""
    negative = isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal)
    if negative or isinstance(node, (exp.Literal, exp.Boolean, exp.Null, exp.Column, exp.DataType)):
        return node
    if node.find(exp.Column) or not isinstance(node, exp.Condition):
        return node
    try:
        text = node.sql(dialect=DIALECT)
        value = Expression.parse(text, condition.schema, functions=condition.functions)
    except QueryError:
        # It fails for every row, and shall go on doing so.
        return node
    assert value.constant is not None
    (constant,) = value.constant.to_pylist()
    if constant is None or value.type not in (pa.int32(), pa.bool_()):
        return node
    if isinstance(constant, bool):
        return exp.true() if constant else exp.false()
    literal = exp.Literal.number(abs(constant))
    return literal if constant >= 0 else exp.Neg(this=literal)
