"""Conditions in one spelling: texts that say the same of every row become one tree.

The equations hold for all three values of SQL, not only for rows that a filter keeps:

    NOT NOT p = p    NOT (p AND q) = NOT p OR NOT q    NOT (p OR q) = NOT p AND NOT q
    NOT (a = b) = a <> b    NOT (a < b) = a >= b    NOT (a <=> b) = a IS DISTINCT FROM b
    a BETWEEN b AND c = a >= b AND a <= c
    a IN (1, 2) = (a = 1 OR a = 2)                      for constants of one type
    p AND TRUE = p    p OR FALSE = p    p AND FALSE = FALSE    p OR TRUE = TRUE
    a > 5 + 5 = a > 10

NOT (a < b) is a >= b because the order is total: NaN equals NaN and is above every number; where a
side is NULL both are NULL. For IEEE's order the equation is wrong: no comparison with NaN holds.

Tempting neighbours: 1 BETWEEN 3 AND b is decided, yet b may fail; constants of several types in IN
are compared as their common type, in which two BIGINTs may be one DOUBLE; 5 + 5 inside arithmetic
has the type INT, where the literal 10 next to a DECIMAL has as few digits as it can. So what may
fail keeps its spelling, so does such an IN, and constants are put together only where they are
compared, as a literal of the same type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import QueryError
from anabranch.expressions.expression import Expression
from anabranch.expressions.functions.literals import number
from anabranch.expressions.rewriting import CONDITIONS, tree_of, typed
from anabranch.expressions.scalar_sql import DIALECT
from anabranch.optimizer.failing import may_fail

_OPPOSITES: Final[dict[type[exp.Expr], type[exp.Expr]]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.GTE,
    exp.GTE: exp.LT,
    exp.GT: exp.LTE,
    exp.LTE: exp.GT,
    exp.NullSafeEQ: exp.NullSafeNEQ,
    exp.NullSafeNEQ: exp.NullSafeEQ,
}
_COMPARISONS: Final = (*_OPPOSITES, exp.In, exp.Between)
_DECIDING: Final = (exp.Connector, exp.Not, exp.Paren)
_LITERALS: Final = (exp.Literal, exp.Boolean, exp.Null)
_KINDS: Final = (pa.bool_(), pa.int32(), pa.int64(), pa.float64())


def spelled(expression: Expression) -> exp.Expr | None:
    """The tree of an expression in its one spelling; None if it may fail for a row.

    >>> bids = pa.schema([("price", pa.float64()), ("item", pa.int64())])
    >>> texts = ["NOT (price > 5 + 5 OR item IN (1, 2))", "item BETWEEN 1 AND 2", "1 / item > 1"]
    >>> for text in texts:
    ...     tree = spelled(Expression.parse(text, bids))
    ...     print(None if tree is None else tree.sql(dialect=DIALECT))
    (price <= 10 AND (item <> 1 AND item <> 2))
    item >= 1 AND item <= 2
    None
    """
    folded = _with_constants(expression)
    if may_fail(folded) and _some_part_may_fail(tree_of(folded), folded):
        return None
    return _spelled(tree_of(folded), folded, holds=True)


def _some_part_may_fail(node: exp.Expr, whole: Expression) -> bool:
    """Whether one of the conditions that AND, OR and NOT combine may fail; these do not.

    A part that may need a closer look (`q < 1`) and one that nothing is known of (`a = array(x)`)
    are together taken for one that may fail.
    """
    inner = node.unnest()
    if isinstance(inner, exp.Not) and _is_condition(inner.this, whole.schema):
        return _some_part_may_fail(inner.this, whole)
    if isinstance(inner, exp.And | exp.Or) and all(
        _is_condition(side, whole.schema) for side in _sides(inner)
    ):
        return any(_some_part_may_fail(side, whole) for side in _sides(inner))
    if inner is tree_of(whole).unnest():
        return True
    text = inner.sql(dialect=DIALECT)
    kind = pa.bool_() if _is_condition(inner, whole.schema) else whole.type
    return may_fail(typed(text, whole.schema, kind, whole.functions))


def _spelled(node: exp.Expr, whole: Expression, *, holds: bool) -> exp.Expr:
    """The tree of a condition, or of its opposite."""
    match node:
        case exp.Paren():
            inner = _spelled(node.this, whole, holds=holds)
            return inner if isinstance(inner, exp.Paren) else exp.Paren(this=inner)
        case exp.Not() if _is_condition(node.this, whole.schema):
            return _spelled(node.this, whole, holds=not holds)
        case exp.And() | exp.Or() if all(
            _is_condition(side, whole.schema) for side in _sides(node)
        ):
            conjoins = isinstance(node, exp.And) == holds
            sides = [_spelled(side, whole, holds=holds) for side in _sides(node)]
            return _joined(sides, exp.And if conjoins else exp.Or)
        case exp.Boolean():
            return exp.Boolean(this=bool(node.this) == holds)
        case exp.Between() if (bounds := _bounds(node, whole)) is not None:
            return _spelled(bounds, whole, holds=holds)
        case exp.In() if _are_alike(node.expressions):
            this, sign = _spelled(node.this, whole, holds=True), exp.EQ if holds else exp.NEQ
            equal: list[exp.Expr] = [
                sign(this=this.copy(), expression=each.copy()) for each in node.expressions
            ]
            return _joined(equal, exp.Or if holds else exp.And)
        case exp.Like() | exp.ILike() if node.args.get("negate"):
            plain = node.copy()
            plain.set("negate", None)
            return _spelled(plain, whole, holds=not holds)
    found = node.copy()
    for child in list(found.iter_expressions()):
        child.replace(_spelled(child, whole, holds=True))
    if holds:
        return found
    return _opposite(found) if type(found) in _OPPOSITES else exp.Not(this=exp.Paren(this=found))


def _bounds(node: exp.Between, whole: Expression) -> exp.And | None:
    """BETWEEN as two comparisons; None where one of them may fail.

    `text BETWEEN 1 AND 2` casts the text, which an expression with BETWEEN does not tell.
    """
    if node.args.get("symmetric"):
        return None
    this, low, high = (node.args[name].copy() for name in ("this", "low", "high"))
    found = exp.And(
        this=exp.GTE(this=this, expression=low),
        expression=exp.LTE(this=this.copy(), expression=high),
    )
    text = found.sql(dialect=DIALECT)
    return None if may_fail(typed(text, whole.schema, pa.bool_(), whole.functions)) else found


def _opposite(comparison: exp.Expr) -> exp.Expr:
    return _OPPOSITES[type(comparison)](
        this=comparison.args["this"], expression=comparison.args["expression"]
    )


def _joined(sides: Sequence[exp.Expr], kind: type[exp.And] | type[exp.Or]) -> exp.Expr:
    """All sides under AND or OR, without those that are decided.

    Halves are joined, not one side after the other: a tree of a thousand alternatives is ten deep.
    """
    neutral = kind is exp.And
    open_ = [side for side in sides if not isinstance(side.unnest(), exp.Boolean)]
    if any(side.unnest().this != neutral for side in sides if side not in open_):
        return exp.Boolean(this=not neutral)
    if not open_:
        return exp.Boolean(this=neutral)
    if len(open_) == 1:
        return open_[0]
    half = len(open_) // 2
    left, right = (_joined(part, kind) for part in (open_[:half], open_[half:]))
    return kind(this=_apart(left), expression=_apart(right))


def _apart(side: exp.Expr) -> exp.Expr:
    return exp.Paren(this=side) if isinstance(side, exp.Connector | exp.Not) else side


def _sides(node: exp.And | exp.Or) -> tuple[exp.Expr, exp.Expr]:
    return node.args["this"], node.args["expression"]


def _is_condition(node: exp.Expr, schema: pa.Schema) -> bool:
    """Whether a value is true, false or unknown by itself; anything else AND may cast."""
    inner = node.unnest()
    if isinstance(inner, exp.Column) and len(inner.parts) == 1:
        return bool(pa.types.is_boolean(schema.field(inner.name).type))
    return isinstance(inner, (*CONDITIONS, exp.And, exp.Or))


def _are_alike(values: Sequence[exp.Expr]) -> bool:
    """Whether values are constants of one type."""
    kinds = {_type_of(each) for each in values}
    return len(kinds) == 1 and None not in kinds


def _type_of(node: exp.Expr) -> object:
    """The type of a literal; None of anything else."""
    negative = isinstance(node, exp.Neg)
    literal = node.this if negative else node
    if not isinstance(literal, exp.Literal):
        return None
    if literal.is_string:
        return None if negative else pa.string()
    found = number(f"-{literal.this}" if negative else str(literal.this))
    return None if found is None else found.type


def _with_constants(expression: Expression) -> Expression:
    """The same with a literal where a constant is compared, or decides."""
    if expression.is_column is not None:
        return expression
    # A whole that is constant has a place to stand in, like the constants inside of it.
    whole = exp.Paren(this=tree_of(expression).copy())
    changed = False
    for node in [each for each in whole.walk() if _may_be_literal(each)]:
        literal = _literal_of(node, expression.schema)
        if literal is not None:
            node.replace(literal)
            changed = True
    if not changed:
        return expression
    text = whole.this.sql(dialect=DIALECT)
    try:
        return typed(text, expression.schema, expression.type, expression.functions)
    except QueryError:
        return expression


def _may_be_literal(node: exp.Expr) -> bool:
    parent = node.parent
    if not isinstance(parent, (*_COMPARISONS, *_DECIDING)) or isinstance(node, exp.Paren):
        return False
    if isinstance(parent, _DECIDING) and not isinstance(node, (*CONDITIONS, exp.Connector)):
        return False
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return False
    if isinstance(node, exp.Literal):
        # 1e1 and 10e0 are one number.
        return not node.is_string and "e" in node.this.lower()
    if isinstance(node, (*_LITERALS, exp.Column)) or not isinstance(node, exp.Condition):
        return False
    return node.find(exp.Column, exp.Anonymous) is None


def _literal_of(node: exp.Expr, schema: pa.Schema) -> exp.Expr | None:
    """A literal with the value and the type of a constant, if there is one."""
    try:
        value = Expression.parse(node.sql(dialect=DIALECT), schema)
        if value.constant is None:
            return None
        text = _text_of(value)
        literal = None if text is None else Expression.parse(text, schema)
    except QueryError:
        # It fails for every row, or only Spark evaluates it.
        return None
    if literal is None or literal.constant is None or literal.type != value.type:
        return None
    return tree_of(literal).copy() if literal.constant.equals(value.constant) else None


def _text_of(value: Expression) -> str | None:
    assert value.constant is not None
    (constant,) = value.constant.to_pylist()
    if constant is None:
        return None
    if value.type == pa.float64():
        return repr(constant) if "e" in repr(constant) else f"{constant!r}e0"
    if value.type in _KINDS:
        return str(constant)
    return format(constant, "f") if pa.types.is_decimal(value.type) else None
