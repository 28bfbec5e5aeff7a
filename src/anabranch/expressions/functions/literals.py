"""Constants and types as Spark's SQL writes them."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Final

import pyarrow as pa
from sqlglot import exp

from anabranch.expressions.functions.arithmetic import Days, Micros, Months
from anabranch.expressions.functions.value import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Value,
    duckdb_name,
    text_literal,
)
from anabranch.expressions.functions.widening import MAX_DIGITS

_SECOND: Final = 1_000_000
_UNITS: Final = {
    "WEEK": 7 * 86_400 * _SECOND,
    "DAY": 86_400 * _SECOND,
    "HOUR": 3_600 * _SECOND,
    "MINUTE": 60 * _SECOND,
    "SECOND": _SECOND,
    "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}
_DAY: Final = _UNITS["DAY"]
_MONTHS: Final = {"YEAR": 12, "MONTH": 1}
_SPAN: Final = re.compile(r"([+-])?(?:(\d+) )?(\d+):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?")

TYPES_BY_NAME: Final = {
    "boolean": BOOLEAN,
    "tinyint": TINYINT,
    "smallint": SMALLINT,
    "int": INT,
    "bigint": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "decimal": pa.decimal128(10, 0),
    "string": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
}
_WRITTEN: Final = {
    exp.DType.BOOLEAN: BOOLEAN,
    exp.DType.TINYINT: TINYINT,
    exp.DType.SMALLINT: SMALLINT,
    exp.DType.INT: INT,
    exp.DType.BIGINT: BIGINT,
    exp.DType.FLOAT: FLOAT,
    exp.DType.DOUBLE: DOUBLE,
    exp.DType.TEXT: STRING,
    exp.DType.BINARY: BINARY,
    exp.DType.DATE: DATE,
    exp.DType.TIMESTAMPTZ: TIMESTAMP,
    exp.DType.TIMESTAMPLTZ: TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: TIMESTAMP_NTZ,
}


def text(written: str) -> Value:
    """A text."""
    return Value(text=text_literal(written), type=STRING, literal=written)


def number(written: str) -> Value | None:
    """A number: an INT, a BIGINT if need be, a DECIMAL with a point, a DOUBLE with an exponent.

    >>> number("2147483648").type, number("-0.050").type
    (DataType(int64), Decimal128Type(decimal128(3, 3)))
    """
    try:
        value = Decimal(written)
    except InvalidOperation:
        return None
    if "e" in written.lower():
        return Value(text=f"CAST('{written}' AS DOUBLE)", type=DOUBLE, literal=float(written))
    if written.lstrip("-").isdigit():
        whole = int(written)
        for kind in (INT, BIGINT):
            if -(2 ** (kind.bit_width - 1)) <= whole < 2 ** (kind.bit_width - 1):
                name = duckdb_name(kind)
                return Value(text=f"CAST({whole} AS {name})", type=kind, literal=whole)
    digits, scale = len(value.as_tuple().digits), -int(value.as_tuple().exponent)
    if max(digits, scale) > MAX_DIGITS:
        return None
    found = pa.decimal128(max(digits, scale), scale)
    return Value(text=f"CAST('{written}' AS {duckdb_name(found)})", type=found, literal=value)


def interval(written: str | None, unit: str) -> Value | None:
    """A span of time: of months, or of days and smaller units."""
    if written is None:
        return None
    one = unit.upper().removesuffix("S")
    if one in _MONTHS and re.fullmatch(r"[+-]?\d+", written):
        months = int(written) * _MONTHS[one]
        return Value(text="NULL", type=pa.month_day_nano_interval(), literal=Months(months))
    if one in _UNITS:
        pattern = r"[+-]?\d+(\.\d{1,6})?" if one == "SECOND" else r"[+-]?\d+"
        if re.fullmatch(pattern, written) is None:
            return None
        return _span(int(Decimal(written) * _UNITS[one]), only_days=one in ("WEEK", "DAY"))
    found = _SPAN.fullmatch(written)
    if found is None or " TO " not in unit.upper():
        return None
    return _composed(found, *unit.upper().split(" TO "))


def _composed(found: re.Match[str], first: str, last: str) -> Value | None:
    sign, day, *parts, fraction = found.groups()
    names = ["HOUR", "MINUTE", "SECOND"]
    given = [part for part in parts if part is not None]
    if (first == "DAY") != (day is not None) or first not in ("DAY", "HOUR"):
        return None
    if (
        names[len(given) - 1] != last
        or any(int(part) > 59 for part in given[1:])
        or int(given[0]) > 23
    ):
        return None
    total = int(day or 0) * _DAY + sum(int(p) * _UNITS[n] for p, n in zip(given, names))
    total += int((fraction or "").ljust(6, "0"))
    return _span(-total if sign == "-" else total, only_days=False)


def _span(micros: int, *, only_days: bool) -> Value:
    literal = Days(micros // _DAY) if only_days else Micros(micros)
    return Value(text=f"CAST({micros} AS BIGINT)", type=INTERVAL, literal=literal)


def type_named(name: str) -> pa.DataType | None:
    """The type that a function of this name casts to: `int(x)`."""
    return TYPES_BY_NAME.get(name)


def type_written(node: exp.DataType) -> pa.DataType | None:
    """A type of Spark's SQL; None for those that workers do not have."""
    if node.this in _WRITTEN and not node.expressions:
        return _WRITTEN[node.this]
    if node.this == exp.DType.DECIMAL:
        sizes = [int(part.name) for part in node.expressions] or [10]
        return pa.decimal128(sizes[0], sizes[1] if len(sizes) > 1 else 0)
    if node.this == exp.DType.ARRAY and len(node.expressions) == 1:
        element = type_written(node.expressions[0])
        return None if element is None else pa.list_(element)
    return None
