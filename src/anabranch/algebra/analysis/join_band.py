"""The band condition of a join: its sides are near each other, `a BETWEEN b - 1 AND b + 1`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import ClassVar, final

import pyarrow as pa
from sqlglot import exp, parse_one

from anabranch.algebra.join import Join
from anabranch.expressions.expression import Expression, ParseScalar
from anabranch.expressions.scalar_sql import DIALECT
from anabranch.model.identity import Identity


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Every pair that satisfies the predicate has left - right in [-below, above]."""

    identity: ClassVar[Identity] = Identity("Band", ("left", "right", "below", "above"))

    left: Expression
    right: Expression
    below: float
    above: float


def find_band(parts: Sequence[exp.Expr], join: Join, parse: ParseScalar) -> Band | None:
    """The first band that the conjuncts bound on both sides, if there is one."""
    bounds: dict[tuple[str, str], list[float]] = {}
    for part in parts:
        for one, other, limit in _bounds(part):
            # one - other <= limit
            for left, right, is_upper in ((one, other, True), (other, one, False)):
                key = left.sql(dialect=DIALECT), right.sql(dialect=DIALECT)
                limits = bounds.setdefault(key, [inf, inf])
                limits[is_upper] = min(limits[is_upper], limit)
    for (mine, theirs), (below, above) in bounds.items():
        if not (isfinite(below) and isfinite(above) and below + above >= 0):
            continue
        sides = _over(mine, join.left.schema, parse), _over(theirs, join.right.schema, parse)
        if sides[0] is not None and sides[1] is not None:
            return Band(left=sides[0], right=sides[1], below=below, above=above)
    return None


def _over(text: str, schema: pa.Schema, parse: ParseScalar) -> Expression | None:
    """An expression over the columns of one side, if it is one and a number."""
    names = {name.lower() for name in schema.names}
    columns = [
        column.name.lower() for column in parse_one(text, dialect=DIALECT).find_all(exp.Column)
    ]
    if not columns or not set(columns) <= names:
        return None
    found = parse(text, schema)
    types = pa.types
    number = types.is_integer(found.type) or types.is_floating(found.type)
    return found if number or types.is_decimal(found.type) else None


def _bounds(part: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr, float]]:
    """What a conjunct says, as (a, b, limit): a - b <= limit."""
    match part:
        case exp.Between():
            yield from _less(part.args["low"], part.this)
            yield from _less(part.this, part.args["high"])
        case exp.LTE() | exp.LT():
            if isinstance(part.left, exp.Abs):
                yield from _near(part.left.this, part.right)
            else:
                yield from _less(part.left, part.right)
        case exp.GTE() | exp.GT():
            yield from _less(part.right, part.left)


def _less(small: exp.Expr, large: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr, float]]:
    """`small <= large`, each an expression plus or minus a constant."""
    (one, more), (other, plus) = _offset(small), _offset(large)
    yield one, other, plus - more


def _near(difference: exp.Expr, limit: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr, float]]:
    """`abs(one - other) <= limit`."""
    difference, most = difference.unnest(), _number(limit)
    if isinstance(difference, exp.Sub) and most is not None:
        (one, more), (other, plus) = _offset(difference.left), _offset(difference.right)
        yield one, other, most + plus - more
        yield other, one, most + more - plus


def _offset(tree: exp.Expr) -> tuple[exp.Expr, float]:
    """An expression as something plus a constant."""
    tree = tree.unnest()
    if isinstance(tree, exp.Add | exp.Sub):
        amount = _number(tree.right)
        if amount is not None:
            inner, more = _offset(tree.left)
            return inner, more + (amount if isinstance(tree, exp.Add) else -amount)
        amount = _number(tree.left)
        if amount is not None and isinstance(tree, exp.Add):
            inner, more = _offset(tree.right)
            return inner, more + amount
    return tree, 0.0


def _number(tree: exp.Expr) -> float | None:
    tree = tree.unnest()
    if isinstance(tree, exp.Neg):
        amount = _number(tree.this)
        return None if amount is None else -amount
    if isinstance(tree, exp.Literal) and not tree.is_string:
        return float(tree.this)
    return None
