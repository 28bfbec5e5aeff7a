"""Patterns such as `yyyy-MM-dd`: a time as a text, and a text as a time."""

from __future__ import annotations

import re
from typing import Final

from anabranch.expressions.functions.value import text_literal

_PIECE: Final = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z'\[\]{}#]", re.DOTALL)
_YEAR: Final = "CAST(abs(year({})) AS VARCHAR)"
_SIGN: Final = "(CASE WHEN year({}) < 0 THEN '-' ELSE '' END)"
_TWO: Final = "lpad(CAST({} AS VARCHAR), 2, '0')"
_TWELVE: Final = "((hour({}) + 11) % 12 + 1)"

_WRITTEN: Final = {
    "y": f"{_SIGN} || {_YEAR}",
    "yyyy": (
        f"(CASE WHEN year({{}}) > 9999 THEN '+' || {_YEAR} ELSE {_SIGN} ||"
        f" lpad({_YEAR}, CAST(greatest(4, length({_YEAR})) AS INTEGER), '0') END)"
    ),
    "yy": "lpad(CAST(abs(year({})) % 100 AS VARCHAR), 2, '0')",
    "M": "CAST(month({}) AS VARCHAR)",
    "MM": _TWO.format("month({})"),
    "MMM": "strftime({}, '%b')",
    "MMMM": "strftime({}, '%B')",
    "d": "CAST(day({}) AS VARCHAR)",
    "dd": _TWO.format("day({})"),
    "H": "CAST(hour({}) AS VARCHAR)",
    "HH": _TWO.format("hour({})"),
    "h": f"CAST({_TWELVE} AS VARCHAR)",
    "hh": _TWO.format(_TWELVE),
    "m": "CAST(minute({}) AS VARCHAR)",
    "mm": _TWO.format("minute({})"),
    "s": "CAST(second({}) AS VARCHAR)",
    "ss": _TWO.format("second({})"),
    **{"S" * digits: f"left(strftime({{}}, '%f'), {digits})" for digits in range(1, 7)},
    **{"E" * count: "strftime({}, '%a')" for count in (1, 2, 3)},
    "EEEE": "strftime({}, '%A')",
    "a": "(CASE WHEN hour({}) < 12 THEN 'AM' ELSE 'PM' END)",
}

_READ: Final = {
    "yyyy": ("year", r"([0-9]{4}|\+[0-9]{5,6}|-[0-9]{4,6})"),
    "MM": ("month", "([0-9]{2})"),
    "M": ("month", "([0-9]{1,2})"),
    "dd": ("day", "([0-9]{2})"),
    "d": ("day", "([0-9]{1,2})"),
    "HH": ("hour", "([0-9]{2})"),
    "mm": ("minute", "([0-9]{2})"),
    "ss": ("second", "([0-9]{2})"),
}
_FIELDS: Final = tuple("MdHms")
_PARTS: Final = ("year", "month", "day", "hour", "minute", "second")


def pieces_of(pattern: str) -> list[str] | None:
    """The letters, quotes and signs of a pattern; None if there is something else in it."""
    found = [piece[0] for piece in _PIECE.finditer(pattern)]
    return found if found and "".join(found) == pattern else None


def _literal_text(piece: str) -> str | None:
    if piece == "''":
        return "'"
    if piece.startswith("'"):
        return piece[1:-1].replace("''", "'")
    return None if piece.isalpha() and piece.isascii() else piece


def written(pattern: str) -> str | None:
    """DuckDB's text for a timestamp `{}` in a pattern; None if a letter is not known here."""
    parts = []
    for piece in pieces_of(pattern) or [""]:
        literal = _literal_text(piece)
        if piece in _WRITTEN:
            parts.append(_WRITTEN[piece])
        elif literal:
            parts.append(text_literal(literal))
        else:
            return None
    return f"({' || '.join(parts)})"


def read(pattern: str) -> str | None:
    """DuckDB's text for the timestamp that a text `{}` shows; NULL if it does not.

    Only patterns of numbers that Java reads in one way: each part once, and between two parts
    either a sign or a fixed number of digits.
    """
    expression, groups, before = "", [], ""
    for piece in pieces_of(pattern) or ["A"]:
        literal = _literal_text(piece)
        if piece in _READ:
            if before in _READ and 1 in (len(piece), len(before)):
                return None
            name, digits = _READ[piece]
            # Without a sign in between, only numbers of a fixed length come apart.
            adjacent = piece == "yyyy" and pattern[pattern.index(piece) + 4 :][:1] in _FIELDS
            groups.append(name)
            expression += "([0-9]{4})" if adjacent else digits
        elif literal and not literal.isalnum():
            expression += re.escape(literal) if literal != " " else " "
        else:
            return None
        before = piece
    if len(set(groups)) < len(groups) or "year" not in groups:
        return None
    # Java wants larger parts with smaller ones.
    needs = {"day": "month", "minute": "hour", "second": "minute"}
    if any(small in groups and large not in groups for small, large in needs.items()):
        return None
    pattern_text = text_literal(expression)
    defaults = {"year": "1970", "month": "1", "day": "1", "hour": "0", "minute": "0", "second": "0"}
    values = []
    for name in _PARTS:
        if name in groups:
            number = groups.index(name) + 1
            values.append(f"CAST(regexp_extract({{}}, {pattern_text}, {number}) AS BIGINT)")
        else:
            values.append(defaults[name])
    values[-1] = f"CAST({values[-1]} AS DOUBLE)"
    fits = f"regexp_full_match({{}}, {pattern_text})"
    made = f"make_timestamp({', '.join(values)})"
    in_day = " AND ".join(f"{value} < {limit}" for value, limit in zip(values[3:], (24, 60, 60)))
    return f"(CASE WHEN {fits} AND {in_day} THEN TRY({made}) END)"
