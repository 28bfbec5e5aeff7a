"""The equations between the sides of a join, out of its predicate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, final

import pyarrow as pa
import sqlglot
from sqlglot import exp

from anabranch.algebra.analysis.join_band import Band, find_band
from anabranch.algebra.join import Join
from anabranch.expressions.expression import Expression, ParseScalar
from anabranch.expressions.scalar_sql import DIALECT
from anabranch.model.identity import Identity


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JoinKeys:
    """Expressions whose values must be equal, and the rest of the predicate.

    A pair satisfies the predicate exactly when no key is NULL, all keys are equal, and `rest` is
    true. Where there are no keys, `band` may say what is near enough to satisfy `rest`.
    """

    identity: ClassVar[Identity] = Identity("JoinKeys", ("left", "right", "rest", "band"))

    left: tuple[Expression, ...]
    right: tuple[Expression, ...]
    rest: Expression | None
    band: Band | None = None

    @staticmethod
    def of(join: Join) -> JoinKeys:
        """Take a predicate apart at its ANDs."""
        if join.predicate is None:
            return JoinKeys(left=(), right=(), rest=None)
        lefts, rights, rest = [], [], []
        parse = partial(Expression.parse, functions=join.predicate.functions)
        for part in _conjuncts(sqlglot.parse_one(join.predicate.sql, dialect=DIALECT)):
            pair = _equation(part, join, parse)
            if pair is None:
                rest.append(part)
            else:
                lefts.append(pair[0])
                rights.append(pair[1])
        text = " AND ".join(f"({part.sql(dialect=DIALECT)})" for part in rest)
        remaining = parse(text, join.both) if rest else None
        band = None if lefts else find_band(rest, join, parse)
        return JoinKeys(left=tuple(lefts), right=tuple(rights), rest=remaining, band=band)


def _conjuncts(tree: exp.Expr) -> list[exp.Expr]:
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        return [*_conjuncts(tree.left), *_conjuncts(tree.right)]
    return [tree]


def _equation(
    part: exp.Expr, join: Join, parse: ParseScalar
) -> tuple[Expression, Expression] | None:
    """Both sides of `left = right`, each over its own input and of one type."""
    if not isinstance(part, exp.EQ):
        return None
    texts = [side.sql(dialect=DIALECT) for side in (part.left, part.right)]
    over = [_side(text, join, parse) for text in texts]
    if set(over) != {"left", "right"}:
        return None
    if over[0] == "right":
        texts.reverse()
    left = parse(texts[0], join.left.schema)
    right = parse(texts[1], join.right.schema)
    if left.type == right.type:
        return left, right
    common = _common(left.type, right.type)
    if common is None:
        return None
    return tuple(  # type: ignore[return-value]
        parse(f"CAST({each.sql} AS {common})", each.schema) for each in (left, right)
    )


def _side(text: str, join: Join, parse: ParseScalar) -> str | None:
    columns = parse(text, join.both).columns
    if columns and columns <= set(join.left.schema.names):
        return "left"
    if columns and columns <= set(join.right.schema.names):
        return "right"
    return None


def _common(left: pa.DataType, right: pa.DataType) -> str | None:
    """The type in which both compare as they do uncast."""
    types = pa.types
    signed = [types.is_signed_integer(kind) for kind in (left, right)]
    if all(signed):
        return "BIGINT"
    small = [
        types.is_floating(kind) or (types.is_signed_integer(kind) and kind.bit_width <= 32)
        for kind in (left, right)
    ]
    return "DOUBLE" if all(small) else None
