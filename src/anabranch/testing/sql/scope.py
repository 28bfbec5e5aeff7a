"""What a drawn query may refer to, and the scalar expressions it makes of that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, final

from hypothesis import strategies as st

from anabranch.testing.sql.text import Either, Kind, Part, Text, text

T = TypeVar("T")


def _double(number: str) -> Part:
    return Either(f"{number}D", f"CAST({number} AS DOUBLE)")


LITERALS: Final[dict[Kind, Sequence[Part]]] = {
    "int": ("1", "2", "0", "3", "-1"),
    "float": (_double("1.5"), _double("0.25"), _double("2"), _double("-0.5"), "1e0"),
    "text": ("'a'", "'b'", "'ab'", "''"),
    "bool": ("TRUE", "FALSE"),
}
_PATTERNS: Final = ("'a%'", "'%b'", "'_'", "'%'", "'a_'", "''")
_COMPARISONS: Final = ("=", "<", ">", "<=", ">=", "<>")


@final
@dataclass(frozen=True, slots=True)
class Visible:
    """A column that can be referred to.

    Attributes:
        name: As it is written.
        kind: What it holds.
        owner: The entry of FROM it belongs to; empty for a column of USING.
        meant: What plain SQL writes for it.
        own: The name of the stream, which may be written for the alias.
        bare: Whether the name alone means it.
    """

    name: str
    kind: Kind
    owner: str
    meant: str
    own: str = ""
    bare: bool = True


@final
@dataclass(frozen=True, slots=True)
class DrawnScope:
    """The columns of a FROM clause."""

    columns: tuple[Visible, ...] = ()

    def of(self, kinds: Iterable[str]) -> list[Visible]:
        """The columns of some kinds."""
        wanted = set(kinds)
        return [column for column in self.columns if column.kind in wanted]


@final
@dataclass(slots=True)
class Scalars:
    """Draws scalar expressions over the columns of a scope."""

    draw: st.DrawFn

    def pick(self, choices: Sequence[T]) -> T:
        """One of several; drawn examples shrink towards the first."""
        return self.draw(st.sampled_from(choices))

    def chance(self, one_in: int) -> bool:
        """Rarely true; shrinks to false."""
        return bool(self.draw(st.integers(0, one_in - 1)) == one_in - 1)

    def column(self, column: Visible, *, around: bool = False) -> Part:
        """A reference to a column, in one of the ways there are to write it."""
        ways: list[str] = []
        if not around and column.bare:
            ways.append(column.name)
        if column.owner:
            ways.append(f"{column.owner}.{column.name}")
        if column.own and not around:
            ways.append(f"{column.own}.{column.name}")
        written = self.pick(ways)
        if self.chance(12):
            written = written.upper()
        return Either(written, column.meant)

    def value(self, kind: Kind, scope: DrawnScope, depth: int = 1) -> Part:
        """An expression of a kind."""
        columns = scope.of([kind])
        ways = ["column"] * 6 if columns else []
        ways += ["literal"]
        if depth > 0:
            ways += ["made"] * 3
        match self.pick(ways):
            case "column":
                return self.column(self.pick(columns))
            case "literal":
                return self.pick(LITERALS[kind])
        if self.chance(5):
            return self._choice(kind, scope, depth - 1)
        make = {"int": self._int, "float": self._float, "text": self._text, "bool": self.condition}
        made: Part = make[kind](scope, depth - 1)
        return made

    def _choice(self, kind: Kind, scope: DrawnScope, depth: int) -> Part:
        one, other = self.value(kind, scope, depth), self.value(kind, scope, depth)
        match self.pick(["coalesce", "case", "case else", "nullif"]):
            case "coalesce":
                return text("COALESCE({}, {})", one, other)
            case "nullif":
                return text("NULLIF({}, {})", one, self.pick(LITERALS[kind]))
            case "case":
                return text("CASE WHEN {} THEN {} END", self.condition(scope, depth), one)
        condition = self.condition(scope, depth)
        return text("CASE WHEN {} THEN {} ELSE {} END", condition, one, other)

    def _int(self, scope: DrawnScope, depth: int) -> Part:
        one = self.value("int", scope, depth)
        match self.pick(["+", "-", "%", "*", "abs", "length", "negative"]):
            case "%":
                return text("({} % {})", one, self.pick(["2", "3"]))
            case "*":
                return text("{} * {}", one, self.pick(["2", "3"]))
            case "abs":
                return text("ABS({})", one)
            case "length":
                return text("LENGTH({})", self.value("text", scope, depth))
            case "negative":
                return text("-({})", one)
            case sign:
                return text(f"({{}} {sign} {{}})", one, self.value("int", scope, depth))

    def _float(self, scope: DrawnScope, depth: int) -> Part:
        match self.pick(["+", "half", "cast", "int"]):
            case "half":
                return text("{} / 2", self.value("int", scope, depth))
            case "cast":
                return text("CAST({} AS DOUBLE)", self.value("int", scope, depth))
            case "int":
                one, other = self.value("float", scope, depth), self.value("int", scope, depth)
                return text("({} - CAST({} AS DOUBLE))", one, other)
        one, other = self.value("float", scope, depth), self.value("float", scope, depth)
        return text("CAST({} + {} AS DOUBLE)", one, other)

    def _text(self, scope: DrawnScope, depth: int) -> Part:
        one = self.value("text", scope, depth)
        match self.pick(["upper", "||", "substring"]):
            case "upper":
                return text("UPPER({})", one)
            case "||":
                return text("({} || {})", one, self.value("text", scope, depth))
        return text("SUBSTRING({}, 1, 1)", one)

    def condition(self, scope: DrawnScope, depth: int = 1) -> Part:
        """Something that is true, false or unknown."""
        ways = ["compare"] * 4 + ["null", "between", "in", "like", "distinct"]
        if scope.of(["bool"]):
            ways.append("bool")
        if depth > 0:
            ways += ["or", "and", "not", "truth"]
        match self.pick(ways):
            case "null":
                kind: Kind = self.pick(["int", "text", "float"])
                is_null = self.pick(["IS NOT NULL", "IS NULL"])
                return text(f"{{}} {is_null}", self.value(kind, scope, depth))
            case "between":
                parts = [self.value("int", scope, depth) for _ in range(3)]
                word = self.pick(["BETWEEN", "NOT BETWEEN"])
                return text(f"{{}} {word} {{}} AND {{}}", *parts)
            case "in":
                return self._in_list(scope, depth)
            case "like":
                word = self.pick(["LIKE", "NOT LIKE"])
                value = self.value("text", scope, depth)
                return text(f"{{}} {word} {{}}", value, self.pick(_PATTERNS))
            case "distinct":
                parts = [self.value("int", scope, depth) for _ in range(2)]
                safe = Either("<=>", "IS NOT DISTINCT FROM")
                signs: list[Part] = [safe, "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
                return text("{} {} {}", parts[0], self.pick(signs), parts[1])
            case "bool":
                return self.column(self.pick(scope.of(["bool"])))
            case "or":
                return self._both("OR", scope, depth)
            case "and":
                return self._both("AND", scope, depth)
            case "not":
                return text("NOT ({})", self.condition(scope, depth - 1))
            case "truth":
                truth = self.pick(["IS TRUE", "IS NOT TRUE", "IS FALSE"])
                return text(f"({{}}) {truth}", self.condition(scope, depth - 1))
        return self.comparison(scope, depth)

    def comparison(self, scope: DrawnScope, depth: int = 1) -> Part:
        """Two values of one kind compared; ints with floats at times."""
        kind: Kind = self.pick(["int", "text", "int", "float"])
        other: Kind = "int" if kind == "float" and self.chance(4) else kind
        one = self.value(kind, scope, depth)
        exact = kind == "float" and self.chance(3)
        against = self.pick(["1.5", "0.25"]) if exact else self.value(other, scope, depth)
        return text(f"{{}} {self.pick(_COMPARISONS)} {{}}", one, against)

    def sign(self) -> str:
        """An operator that compares."""
        return self.pick(_COMPARISONS)

    def _both(self, word: str, scope: DrawnScope, depth: int) -> Text:
        one, other = self.condition(scope, depth - 1), self.condition(scope, depth - 1)
        return text(f"({{}} {word} {{}})", one, other)

    def _in_list(self, scope: DrawnScope, depth: int) -> Part:
        kind: Kind = self.pick(["int", "text"])
        listed: list[Any] = self.draw(
            st.lists(st.sampled_from([*LITERALS[kind], "NULL"]), min_size=1, max_size=3)
        )
        word = self.pick(["IN", "NOT IN"])
        return text(f"{{}} {word} ({', '.join(listed)})", self.value(kind, scope, depth))
