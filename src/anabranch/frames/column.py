"""A column of a stream as an object: `stream["price"] * 2 > 80` is SQL text that is built up."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias, final

from anabranch.errors import PlanError
from anabranch.language.fragments.join import LEFT, RIGHT

_MARK: Final = re.compile("\x00([0-9]+)\x00")

Value: TypeAlias = Any
"""What a column is compared or combined with: another column, or a Python value."""


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Column:
    """An expression over the columns of a stream; `stream["price"]` and `ab.col("price")` are.

    Operators and methods are those of Spark's `Column` and build SQL text, which every method that
    takes text takes as well: `stream.where(stream["price"] > 80)`.

    Attributes:
        marked: The text, where columns of a stream have a mark in front that says of which.
        name: The name that `alias` gave; None: none was given.
        origins: The plans whose columns these are; they live as long as the marks.
    """

    marked: str
    name: str | None = None
    origins: tuple[object, ...] = ()

    @property
    def sql(self) -> str:
        """The text."""
        return _MARK.sub("", self.marked)

    def qualified(self, left: object, right: object) -> str:
        """The text for a join of two plans: every column says which side it is of.

        Raises:
            PlanError: A column is of neither, or both sides are the same plan.
        """
        sides = {id(left): LEFT, id(right): RIGHT}
        if id(left) == id(right) and _MARK.search(self.marked):
            raise PlanError(
                "it is not clear which side a column is of: both sides are the same stream",
                where=f"join on {self.sql}",
                hint="give them names: a.alias('a').join(a.alias('b'), 'a.item = b.item')",
            )

        def side(found: re.Match[str]) -> str:
            name = sides.get(int(found[1]))
            if name is None:
                raise PlanError(
                    "a column in the condition is of a stream that is not joined",
                    where=f"join on {self.sql}",
                    hint="use the columns of the two streams themselves: left['item'] == "
                    "right['item'], or names that both have: on='item'",
                )
            return f"{name}."

        return _MARK.sub(side, self.marked)

    def alias(self, name: str) -> Column:
        """The same under a name."""
        return Column(self.marked, name, self.origins)

    def cast(self, kind: str) -> Column:
        """As another type: `cast("double")`."""
        return self._made(f"CAST({self.marked} AS {kind})")

    def isin(self, *values: Value) -> Column:
        """Whether it is one of some values."""
        given = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
        return self._made(f"({self.marked} IN ({', '.join(map(_marked, given))}))", *given)

    def between(self, low: Value, high: Value) -> Column:
        """Whether it lies between two values, both included."""
        return self._made(f"({self.marked} BETWEEN {_marked(low)} AND {_marked(high)})", low, high)

    def like(self, pattern: str) -> Column:
        """Whether it looks like a pattern with % and _."""
        return self._made(f"({self.marked} LIKE {_marked(pattern)})")

    def rlike(self, pattern: str) -> Column:
        """Whether a regular expression is found in it."""
        return self._made(f"({self.marked} RLIKE {_marked(pattern)})")

    def startswith(self, text: Value) -> Column:
        """Whether it begins with a text."""
        return self._made(f"startswith({self.marked}, {_marked(text)})", text)

    def endswith(self, text: Value) -> Column:
        """Whether it ends with a text."""
        return self._made(f"endswith({self.marked}, {_marked(text)})", text)

    def contains(self, text: Value) -> Column:
        """Whether a text is in it."""
        return self._made(f"contains({self.marked}, {_marked(text)})", text)

    def substr(self, start: int, length: int) -> Column:
        """A part of it; the first character has the number 1."""
        return self._made(f"substring({self.marked}, {start}, {length})")

    def isNull(self) -> Column:  # noqa: N802  # the name that Spark has for it
        """Whether it is NULL."""
        return self._made(f"({self.marked} IS NULL)")

    def isNotNull(self) -> Column:  # noqa: N802
        """Whether it is not NULL."""
        return self._made(f"({self.marked} IS NOT NULL)")

    def eqNullSafe(self, other: Value) -> Column:  # noqa: N802
        """Whether both are equal, or both NULL."""
        return self._with("<=>", other)

    def asc(self) -> Column:
        """For `top`: the smallest first."""
        return self._made(f"{self.marked} ASC")

    def desc(self) -> Column:
        """For `top`: the largest first."""
        return self._made(f"{self.marked} DESC")

    def getField(self, name: str) -> Column:  # noqa: N802
        """A field of a struct."""
        return self._made(f"{self.marked}.{quoted(name)}")

    def getItem(self, key: Value) -> Column:  # noqa: N802
        """An item of an array, or the value of a key in a map."""
        return self._made(f"{self.marked}[{_marked(key)}]", key)

    def __getitem__(self, key: Value) -> Column:
        return self.getItem(key)

    def _made(self, marked: str, *others: Value) -> Column:
        origins = (o for each in others if isinstance(each, Column) for o in each.origins)
        return Column(marked, None, (*self.origins, *origins))

    def _with(self, operator: str, other: Value) -> Column:
        return self._made(f"({self.marked} {operator} {_marked(other)})", other)

    def _after(self, operator: str, other: Value) -> Column:
        return self._made(f"({_marked(other)} {operator} {self.marked})", other)

    def __eq__(self, other: object) -> Column:  # type: ignore[override]
        return self._with("=", other)

    def __ne__(self, other: object) -> Column:  # type: ignore[override]
        return self._with("<>", other)

    def __lt__(self, other: Value) -> Column:
        return self._with("<", other)

    def __le__(self, other: Value) -> Column:
        return self._with("<=", other)

    def __gt__(self, other: Value) -> Column:
        return self._with(">", other)

    def __ge__(self, other: Value) -> Column:
        return self._with(">=", other)

    def __add__(self, other: Value) -> Column:
        return self._with("+", other)

    def __radd__(self, other: Value) -> Column:
        return self._after("+", other)

    def __sub__(self, other: Value) -> Column:
        return self._with("-", other)

    def __rsub__(self, other: Value) -> Column:
        return self._after("-", other)

    def __mul__(self, other: Value) -> Column:
        return self._with("*", other)

    def __rmul__(self, other: Value) -> Column:
        return self._after("*", other)

    def __truediv__(self, other: Value) -> Column:
        return self._with("/", other)

    def __rtruediv__(self, other: Value) -> Column:
        return self._after("/", other)

    def __mod__(self, other: Value) -> Column:
        return self._with("%", other)

    def __rmod__(self, other: Value) -> Column:
        return self._after("%", other)

    def __neg__(self) -> Column:
        return self._made(f"(-{self.marked})")

    def __and__(self, other: Value) -> Column:
        return self._with("AND", other)

    def __rand__(self, other: Value) -> Column:
        return self._after("AND", other)

    def __or__(self, other: Value) -> Column:
        return self._with("OR", other)

    def __ror__(self, other: Value) -> Column:
        return self._after("OR", other)

    def __invert__(self) -> Column:
        return self._made(f"(NOT {self.marked})")

    def __bool__(self) -> bool:
        raise PlanError(
            "a column is neither true nor false",
            where=f"Column {self.sql}",
            hint="write & for and, | for or, ~ for not, with parentheses: (a > 1) & (b < 2)",
        )

    def __iter__(self) -> Any:
        raise TypeError("a column is not a list; write stream.select(...) or run.to_pandas()")

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"Column<'{self.text}'>"

    @property
    def text(self) -> str:
        """The text with its name, as `select` takes it."""
        return self.sql if self.name is None else f"{self.sql} AS {quoted(self.name)}"


def column_of(name: str, node: object) -> Column:
    """A column of a plan, which a join can tell from one of another plan with the same name."""
    return Column(f"\x00{id(node)}\x00{quoted(name)}", None, (node,))


def _marked(value: Value) -> str:
    return value.marked if isinstance(value, Column) else literal(value)


def col(name: str) -> Column:
    """A column by its name, for any stream: `ab.col("price") > 80`."""
    return Column("*" if name == "*" else quoted(name))


def expr(text: str) -> Column:
    """A column by SQL text: `ab.expr("price * 2") > 80`."""
    return Column(f"({text})")


def lit(value: Value) -> Column:
    """A constant as a column."""
    return Column(literal(value))


def quoted(name: str) -> str:
    """A name as it stands in SQL.

    >>> quoted("price"), quoted("the price")
    ('price', '`the price`')
    """
    plain = name.replace("_", "a").isalnum() and name.isascii() and not name[0].isdigit()
    return name if plain and name.lower() not in _WORDS else "`" + name.replace("`", "``") + "`"


_WORDS: Final = frozenset(
    [
        "all",
        "and",
        "any",
        "as",
        "asc",
        "between",
        "by",
        "case",
        "cast",
        "cross",
        "desc",
        "distinct",
        "else",
        "end",
        "exists",
        "false",
        "for",
        "from",
        "full",
        "group",
        "having",
        "in",
        "inner",
        "interval",
        "is",
        "join",
        "left",
        "like",
        "limit",
        "natural",
        "not",
        "null",
        "on",
        "or",
        "order",
        "outer",
        "right",
        "select",
        "semi",
        "table",
        "then",
        "true",
        "union",
        "using",
        "when",
        "where",
        "window",
        "with",
        "date",
        "time",
        "timestamp",
        "day",
        "hour",
        "minute",
        "second",
        "current_date",
        "current_timestamp",
    ]
)


def literal(value: Value) -> str:
    """A Python value as SQL; a column stays what it is.

    >>> literal("x"), literal(1.5), literal(None), literal(date(2026, 11, 1))
    ("'x'", '1.5D', 'NULL', "DATE '2026-11-01'")

    Raises:
        PlanError: There is no such constant.
    """
    match value:
        case Column():
            return value.sql
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return _double(value)
        case Decimal():
            return f"{value}BD"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case datetime():
            kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
            return f"{kind} '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
    raise PlanError(
        f"{value!r} is not a constant of SQL",
        hint="use a column, a number, a text, True, False, None, a date or a datetime",
    )


def _double(value: float) -> str:
    text = repr(value)
    return f"CAST('{text}' AS DOUBLE)" if not text[-1].isdigit() else f"{text}D"
