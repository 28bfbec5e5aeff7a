"""How Spark prints an expression, in prefix form, as SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, final

_INFIX: Final = {
    **{sign: sign for sign in ("=", ">", "<", ">=", "<=", "<=>", "+", "-", "*", "/", "%")},
    **{sign: sign for sign in ("&", "|", "^")},
    "and": "AND",
    "or": "OR",
    "like": "LIKE",
    "ilike": "ILIKE",
    "rlike": "RLIKE",
}
_PREFIX: Final = {"!": "NOT ", "not": "NOT ", "negative": "-", "~": "~", "positive": "+"}
_HEAD: Final = re.compile(r"(?:[A-Za-z_]\w*|<=>|[<>]=|[-=<>+*/%&|^!~])(?=\()")
_TEXT: Final = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:E-?\d+)?")
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d(?:\.\d+)?))?")
_ENDS: Final = (" AS ", " WHEN ", " THEN ", " ELSE ", " END")


class NotPlainError(Exception):
    """The text is not of the form that is understood."""


def sql_of_printed(printed: str, columns: Sequence[str]) -> Iterator[str]:
    """What a printed expression may be in SQL, the likeliest first.

    A fraction is a double or a decimal, and a moment has a time zone or none: the text does not
    tell.

    >>> next(sql_of_printed("and(>(price, 80), =(name, 'x'))", ["price", "name"]))
    "((`price` > 80) AND (`name` = 'x'))"
    >>> list(sql_of_printed("*(price, 1.5) AS more", ["price"]))
    ['(`price` * 1.5D) AS `more`', '(`price` * 1.5BD) AS `more`']
    """
    found: list[str] = []
    for suffix in ("D", "BD"):
        for moment in ("TIMESTAMP", "TIMESTAMP_NTZ"):
            reader = _Printed(printed, columns, suffix, moment)
            text = reader.whole()
            if text not in found:
                found.append(text)
    yield from found


@final
class _Printed:
    """A cursor over a printed expression."""

    def __init__(self, text: str, columns: Sequence[str], suffix: str, moment: str) -> None:
        self._text = text
        self._at = 0
        self._columns = sorted(columns, key=len, reverse=True)
        self._suffix = suffix
        self._moment = moment

    def whole(self) -> str:
        """All of it, with an alias."""
        found = self._expression()
        if self._take(" AS "):
            name = self._text[self._at :].strip("`")
            self._at = len(self._text)
            found = f"{found} AS `{name.replace('`', '``')}`"
        if self._at < len(self._text):
            raise NotPlainError
        return found

    def _take(self, word: str) -> bool:
        there = self._text.startswith(word, self._at)
        self._at += len(word) if there else 0
        return there

    def _demand(self, word: str) -> None:
        if not self._take(word):
            raise NotPlainError

    def _expression(self) -> str:
        found = self._atom()
        while self._take("["):
            found = f"{found}[{self._expression()}]"
            self._demand("]")
        return found

    def _atom(self) -> str:
        text = _TEXT.match(self._text, self._at)
        if text is not None:
            self._at = text.end()
            return text[0]
        if self._text.startswith(("CASE WHEN ", "CASE  WHEN "), self._at):
            return self._case()
        head = _HEAD.match(self._text, self._at)
        if head is not None:
            self._at = head.end() + 1
            return self._call(head[0])
        return self._plain()

    def _case(self) -> str:
        self._demand("CASE")
        parts = ["CASE"]
        while self._take(" WHEN "):
            condition = self._expression()
            self._demand(" THEN ")
            parts.append(f"WHEN {condition} THEN {self._expression()}")
        if self._take(" ELSE "):
            parts.append(f"ELSE {self._expression()}")
        self._demand(" END")
        return " ".join([*parts, "END"])

    def _call(self, name: str) -> str:
        if name.upper() in ("CAST", "TRY_CAST"):
            inner = self._expression()
            self._demand(" AS ")
            end = self._closing()
            kind, self._at = self._text[self._at : end], end + 1
            return f"{name}({inner} AS {kind})"
        arguments: list[str] = []
        while not self._take(")"):
            if arguments:
                self._demand(", ")
            arguments.append("*" if self._take("*)") else self._expression())
            if arguments[-1] == "*":
                break
        return _written(name, arguments)

    def _closing(self) -> int:
        depth = 0
        for index in range(self._at, len(self._text)):
            depth += (self._text[index] == "(") - (self._text[index] == ")")
            if depth < 0:
                return index
        raise NotPlainError

    def _plain(self) -> str:
        """A column, a number, a moment, or SQL as `expr` takes it, up to what ends it."""
        rest = self._text[self._at :]
        for name in self._columns:
            if rest.lower().startswith(name.lower()) and _ends(rest[len(name) :]):
                self._at += len(name)
                return f"`{name.replace('`', '``')}`"
        for pattern in (_MOMENT, _NUMBER):
            found = pattern.match(rest)
            if found is not None and _ends(rest[found.end() :]):
                self._at += found.end()
                return self._constant(found, pattern)
        depth, length = 0, 0
        while length < len(rest):
            quoted = _TEXT.match(rest, length)
            if quoted is not None:
                length = quoted.end()
                continue
            depth += (rest[length] in "([") - (rest[length] in ")]")
            if depth < 0 or (depth == 0 and _ends(rest[length:], bracket=False)):
                break
            length += 1
        if not length:
            raise NotPlainError
        self._at += length
        text = rest[:length]
        return text if re.fullmatch(r"[\w.`]+", text) else f"({text})"

    def _constant(self, found: re.Match[str], pattern: re.Pattern[str]) -> str:
        if pattern is _MOMENT:
            return f"{self._moment if found[2] else 'DATE'} '{found[0]}'"
        whole = found[0].lstrip("-").isdigit()
        return found[0] if whole else f"{found[0]}{self._suffix}"


def _ends(rest: str, *, bracket: bool = True) -> bool:
    return not rest or rest.startswith((", ", ")", "]", *(("[",) if bracket else ()), *_ENDS))


def _written(name: str, arguments: Sequence[str]) -> str:
    if name in _INFIX and len(arguments) == 2:
        return f"({arguments[0]} {_INFIX[name]} {arguments[1]})"
    if name in _PREFIX and len(arguments) == 1:
        return f"({_PREFIX[name]}{arguments[0]})"
    if name == "in" and len(arguments) > 1:
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    if not name[0].isalpha() and name[0] != "_":
        raise NotPlainError
    return f"{name}({', '.join(arguments)})"
