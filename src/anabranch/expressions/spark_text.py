"""Spark SQL, parsed so that functions keep the names and arguments they are written with."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

DIALECT: Final = "spark"

OF_THEIR_OWN: Final = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION", "SUBSTRING", "OVERLAY")
"""Functions whose arguments are not just a list."""

_UNITS_FIRST: Final = frozenset(
    "date_add date_diff dateadd datediff timestampadd timestampdiff".split()  # noqa: SIM905
)


class Written(Spark):
    """Spark's dialect, without what sqlglot knows about functions of other engines.

    It would read `date_add` or `element_at` as something more general, and write that down in
    other words, which do not always mean the same.
    """

    class Tokenizer(Spark.Tokenizer):
        """Two quotes in a text are one, as in Spark 4."""

        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    class Parser(SparkParser):
        """All functions are calls by name, but for those with a syntax of their own."""

        FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
            name: parser
            for name, parser in SparkParser.FUNCTION_PARSERS.items()
            if name in OF_THEIR_OWN
        }
        # `array(1, 2)[0]` is an item of an array; elsewhere ARRAY[0] is an array of one item.
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Func]]] = {}


LEVELS: Final[dict[type[exp.Expr], int]] = {
    **dict.fromkeys((exp.Mul, exp.Div, exp.IntDiv, exp.Mod), 8),
    **dict.fromkeys((exp.Add, exp.Sub, exp.DPipe), 7),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), 6),
    exp.BitwiseAnd: 5,
    exp.BitwiseXor: 4,
    exp.BitwiseOr: 3,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ), 2),
    **dict.fromkeys((exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Is), 1),
    exp.NullSafeNEQ: 1,
    exp.Not: 0,
    exp.And: -1,
    exp.Or: -2,
}
"""How tightly Spark's operators bind."""


def is_unclear(node: exp.Expr) -> bool:
    """Whether Spark would put parentheses elsewhere than the parser did: `1 | 2 & 3`."""
    level = LEVELS.get(type(node))
    if level is None or not isinstance(node, exp.Binary):
        return False
    left = LEVELS.get(type(node.this), 9)
    right = LEVELS.get(type(node.expression), 9)
    if isinstance(node, exp.And | exp.Or):
        return False
    return left < level or right <= level


def is_unit_of(node: exp.Expr) -> bool:
    """Whether a name is no column but a unit, as in `timestampadd(HOUR, 1, at)`."""
    call = node.parent
    return (
        isinstance(call, exp.Anonymous)
        and call.name.lower() in _UNITS_FIRST
        and len(call.expressions) == 3
        and call.expressions[0] is node
    )


def rewrite(tree: exp.Expr, rule: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Apply a rule to every node, from the leaves up; what a rule builds is left alone."""
    root = tree.copy()
    for node in reversed(list(root.walk())):
        built = rule(node)
        if built is not node and node.parent is not None:
            node.replace(built)
        elif built is not node:
            root = built
    return root


def intervals(node: exp.Expr) -> exp.Expr:
    """`1 day 2 hours` is one interval, also behind a minus."""
    is_sum = isinstance(node, exp.Add) and isinstance(node.expression, exp.Interval)
    inside = isinstance(node.parent, exp.Binary) and node.arg_key == "expression"
    return exp.paren(node.copy()) if is_sum and inside else node


def strict(node: exp.Expr) -> exp.Expr:
    """Casts and divisions that fail where Spark's do (sqlglot takes Spark for lenient)."""
    if isinstance(node, exp.TryCast) and not node.args.get("safe"):
        return exp.Cast(this=node.this.copy(), to=node.args["to"].copy())
    if isinstance(node, exp.Div):
        return exp.Div(this=node.this.copy(), expression=node.expression.copy(), typed=False)
    return node
