"""Calls of aggregate functions in SQL: what the parser made of them, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import sqlglot
from sqlglot import expressions as exp

from anabranch.errors import QueryError
from anabranch.expressions.expression import Expression

Bind: TypeAlias = Callable[[exp.Expr], Expression]
"""How an argument is read."""


@final
@dataclass(frozen=True, slots=True)
class SqlForm:
    """A type of node that the parser makes of a call.

    Attributes:
        tree: The type.
        parts: The arguments of the node that are read.
        checked: Those that are checked and change nothing.
        refused: All others that the parser knows, so that a new one is noticed.
        within_group: `WITHIN GROUP (ORDER BY x)` may stand behind it.
    """

    tree: type[exp.Expr]
    parts: tuple[str, ...] = ("this",)
    checked: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    within_group: bool = False


@final
@dataclass(frozen=True, slots=True)
class SqlCall:
    """A call as it was written.

    Attributes:
        tree: What the parser made of it.
        order: The order in WITHIN GROUP, if there is one.
        text: The call, for errors.
        bind: Reads an expression over the columns of the input.
        hint: How the function is written.
    """

    tree: exp.Expr
    order: exp.Expr | None
    text: str
    bind: Bind
    hint: str

    def wrong(self, what: str, hint: str | None = None) -> QueryError:
        """An error in this call."""
        return QueryError(what, where=self.text, hint=hint or self.hint)

    def without_distinct(self, argument: exp.Expr) -> tuple[exp.Expr, bool]:
        """An argument, and whether DISTINCT stands in front of it."""
        if not isinstance(argument, exp.Distinct):
            return argument, False
        if len(argument.expressions) != 1:
            raise self.wrong("DISTINCT takes one expression here")
        return argument.expressions[0], True

    def ascending(self, order: exp.Expr) -> exp.Expr:
        """The one expression that is ordered by, upwards."""
        parts = order.expressions
        if len(parts) != 1 or parts[0].args.get("desc"):
            raise self.wrong("the order must be one expression, ascending")
        inner: exp.Expr = parts[0].this
        return inner

    def constant(self, part: exp.Expr, what: str) -> object:
        """The value of an expression without columns."""
        found = self.bind(part)
        if found.constant is None:
            raise self.wrong(f"{what} must be a constant")
        value: object = found.constant[0].as_py()
        return value

    def commas(self) -> int:
        """How many commas stand between the arguments of the call."""
        depth = found = 0
        for token in sqlglot.tokenize(self.text, dialect="spark"):
            kind = token.token_type.name
            depth += kind.startswith("L_") - kind.startswith("R_")
            found += kind == "COMMA" and depth == 1
        return found


@final
@dataclass(frozen=True, slots=True)
class SqlReading:
    """What a call says; no argument is `*`."""

    argument: Expression | None = None
    distinct: bool = False
    fraction: float | None = None
    separator: str | None = None


def read_one_argument(call: SqlCall) -> SqlReading:
    """`f(x)`, `f(DISTINCT x)`, `f(*)`."""
    argument = call.tree.this
    if argument is None or isinstance(argument, exp.Star):
        return SqlReading()
    argument, distinct = call.without_distinct(argument)
    return SqlReading(call.bind(argument), distinct)
