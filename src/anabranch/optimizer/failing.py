"""Expressions that may fail for a row."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import pyarrow as pa
from sqlglot import exp

from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import CONDITIONS, tree_of

_COMPARISONS: Final = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.In, exp.Between, exp.Nullif, exp.Coalesce, exp.Greatest, exp.Least),
)
_TEXT_FUNCTIONS: Final = (
    *(exp.Upper, exp.Lower, exp.Length, exp.Trim, exp.Concat, exp.DPipe),
    *(exp.Like, exp.ILike, exp.StartsWith, exp.EndsWith, exp.Contains),
)
_TRANSPARENT: Final = (exp.Paren, exp.And, exp.Or, exp.Not, exp.Is, exp.Case, exp.If, exp.Dot)
_PLAIN: Final = (exp.Literal, exp.Boolean, exp.Null, exp.Identifier, exp.DataType)
_WIDER: Final = {
    "integer": ("integer", "decimal", "float", "text"),
    "decimal": ("float", "text"),
    "float": ("text",),
    "text": ("text",),
    "condition": ("text",),
}


@lru_cache(maxsize=4096)
def may_fail(expression: Expression) -> bool:
    """Whether a row may exist for which the expression has no value but an error.

    What is not known to be safe may fail: divisions unless by a positive number, casts that do
    not widen, comparisons that cast implicitly, what only Spark evaluates. Arithmetic on integers
    and decimals overflows in Spark, so it may fail, too; on floats it does not. An expression
    knows itself whether it uses something that fails; here some uses are seen to be safe.

    >>> bids = pa.schema([("item", pa.int64()), ("price", pa.float64())])
    >>> texts = ["price * 2 > 80", "item + 1 = 5", "price / item > 1", "item % 2 = 0"]
    >>> [may_fail(Expression.parse(text, bids)) for text in texts]
    [False, True, True, False]
    """
    if expression.is_column is not None or expression.constant is not None:
        return False
    if not expression.may_fail and not expression.spark_only:
        return False
    return _fails(tree_of(expression), expression.schema)


def any_may_fail(expressions: Iterable[Expression]) -> bool:
    """Whether one of them may fail."""
    return any(may_fail(each) for each in expressions)


def _fails(node: exp.Expr, schema: pa.Schema) -> bool:
    if isinstance(node, exp.Column) or _is_plain(node):
        return False
    children = list(node.iter_expressions())
    if any(_fails(child, schema) for child in children):
        return True
    match node:
        case _ if isinstance(node, _TRANSPARENT):
            return False
        case _ if isinstance(node, _COMPARISONS):
            return not _comparable(children, schema)
        case _ if isinstance(node, _TEXT_FUNCTIONS):
            return any(_kind(child, schema) != "text" for child in children)
        case exp.RegexpLike():
            return not isinstance(node.expression, exp.Literal)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Neg():
            return _kind(node, schema) != "float"
        case exp.Div() | exp.IntDiv() | exp.Mod():
            return not _divides(node, schema)
        case exp.TryCast() if node.args.get("safe"):
            return False
        case exp.Cast():
            wider = _WIDER.get(str(_kind(node.this, schema)), ())
            return _kind(node, schema) not in wider or _narrows(node, schema)
    return True


def _divides(node: exp.Div | exp.IntDiv | exp.Mod, schema: pa.Schema) -> bool:
    divisor = node.expression.unnest()
    positive = isinstance(divisor, exp.Literal) and not divisor.is_string and float(divisor.this)
    kinds = {_kind(node.this, schema), _kind(divisor, schema)}
    return bool(positive) and kinds <= {"integer", "float"}


def _comparable(operands: list[exp.Expr], schema: pa.Schema) -> bool:
    """Whether no operand is cast in a way that may fail; constants were tried before."""
    inner = [operand for operand in operands if not _is_plain(operand.unnest())]
    kinds = {_kind(operand, schema) for operand in inner}
    if len(kinds) <= 1:
        if None in kinds:
            return False
        # A number in the text of a text column is what a constant number is compared with.
        numbers = any(_is_number(operand) for operand in operands)
        return kinds != {"text"} or not numbers
    return kinds <= {"integer", "float"}


def _is_plain(node: exp.Expr) -> bool:
    """Whether a node is a constant as it is written, or the negative of one."""
    if isinstance(node, exp.Neg):
        return isinstance(node.this, exp.Literal) and not node.this.is_string
    return isinstance(node, _PLAIN)


def _is_number(node: exp.Expr) -> bool:
    found = node.unnest()
    found = found.this if isinstance(found, exp.Neg) else found
    return isinstance(found, exp.Literal) and not found.is_string


def _narrows(node: exp.Cast, schema: pa.Schema) -> bool:
    """Whether an integer becomes a smaller one, or a decimal that cannot hold all of them."""
    source, target = _kind(node.this, schema), _kind(node, schema)
    if source != "integer" or target not in ("integer", "decimal"):
        return False
    if target == "decimal" or not isinstance(node.this.unnest(), exp.Column):
        return True
    width = schema.field(node.this.unnest().parts[0].name).type.bit_width
    return not (node.to.is_type("bigint") or (node.to.is_type("int") and width <= 32))


def _kind(node: exp.Expr, schema: pa.Schema) -> str | None:
    """What kind of value a node gives, as far as it can be told from the text."""
    match node:
        case exp.Paren():
            return _kind(node.this, schema)
        case exp.Column():
            return _kind_of_type(schema.field(node.parts[0].name).type, len(node.parts) > 1)
        case exp.Literal():
            if node.is_string:
                return "text"
            return "integer" if node.this.isdigit() else "decimal"
        case exp.Cast():
            return _kind_of_cast(node.to)
        case exp.Neg():
            return _kind(node.this, schema)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod():
            return _common([node.this, node.expression], schema)
        case exp.Coalesce() | exp.Greatest() | exp.Least():
            return _common([node.this, *node.expressions], schema)
        case exp.If():
            return _common([node.args["true"], node.args.get("false")], schema)
        case exp.Case():
            return _common(
                [*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default")],
                schema,
            )
        case exp.Div():
            return "float"
        case exp.Length():
            return "integer"
        case _ if isinstance(node, (*CONDITIONS, exp.Connector)):
            return "condition"
        case exp.Upper() | exp.Lower() | exp.Trim() | exp.Concat() | exp.DPipe():
            return "text"
    return None


def _common(nodes: list[exp.Expr | None], schema: pa.Schema) -> str | None:
    """The kind of a value that comes from any of these; NULL is of every kind."""
    given = [node for node in nodes if node is not None and not isinstance(node, exp.Null)]
    kinds = {_kind(node, schema) for node in given}
    if len(kinds) == 1:
        return kinds.pop()
    return "float" if "float" in kinds and kinds <= {"integer", "float", "decimal"} else None


def _kind_of_type(kind: pa.DataType, nested: bool) -> str | None:
    types = pa.types
    if nested:
        return None
    if types.is_signed_integer(kind):
        return "integer"
    if types.is_floating(kind):
        return "float"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    if types.is_boolean(kind):
        return "condition"
    return str(kind)


def _kind_of_cast(target: exp.DataType) -> str | None:
    if target.is_type(*exp.DataType.INTEGER_TYPES):
        return "integer"
    if target.is_type(*exp.DataType.FLOAT_TYPES):
        return "float"
    if target.is_type(*exp.DataType.TEXT_TYPES):
        return "text"
    return "decimal" if target.is_type("decimal") else None
