"""Casts: a value of another type, or a failure, just as Spark's casts in ANSI mode."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from anabranch.expressions.functions.value import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Value,
    duckdb_name,
    is_array,
    is_decimal,
    is_float,
    is_integer,
    is_number,
    is_time,
    name_of,
    text_literal,
)

_BLANK: Final = r"[\x00-\x20\x7f-\x9f]"
"""What Spark takes away around a text before it reads a number."""

WRONG_CONSTANT: Final = "the constant"
"""What the complaint about a constant begins with, which is wrong whatever the row is."""

_EXACT_DIGITS: Final = 15
"""A decimal of so many digits is one exact division away from the nearest double."""

_MOST: Final = "9223372036854775808.0"


def cast(value: Value, kind: pa.DataType, *, safe: bool = False) -> Value | None:
    """A value as another type; None where Spark and DuckDB could disagree, or Spark has no cast.

    With `safe` a value that does not fit becomes NULL, as with `try_cast`.
    """
    given = value.type
    if given == kind:
        return value
    if given == NULL:
        return Value(text=f"CAST(NULL AS {duckdb_name(kind)})", type=kind)
    if is_array(given) and is_array(kind):
        return _cast_array(value, kind, safe=safe)
    if kind == STRING:
        return _to_text(value)
    if given == STRING:
        return _from_text(value, kind, safe=safe)
    if is_time(given) or is_time(kind):
        return _between_times(value, kind, safe=safe)
    if INTERVAL in (given, kind) or BINARY in (given, kind):
        return None
    if kind == BOOLEAN:
        return value.called("({} <> 0)", BOOLEAN) if is_number(given) else None
    if is_number(kind) and (is_number(given) or given == BOOLEAN):
        return _to_number(value, kind, safe=safe)
    return None


def strictly(value: Value, tried: str, kind: pa.DataType, *, safe: bool, what: str) -> Value:
    """What was tried, where NULL says that it did not succeed."""
    if safe:
        return Value(text=tried, type=kind, fails=value.fails)
    failure = f"error(concat(CAST({value.text} AS VARCHAR), ' {what}'))"
    text = f"COALESCE({tried}, CASE WHEN {value.text} IS NOT NULL THEN {{}} END)"
    if isinstance(value.literal, str):
        # It is tried when the expression is read.
        failure = f"error({text_literal(f'{WRONG_CONSTANT} {value.literal!r} {what}')})"
    return Value(text=text.replace("{}", failure), type=kind, fails=value.literal is None)


def convert(value: Value, kind: pa.DataType, *, safe: bool = False) -> Value:
    """DuckDB's own cast."""
    word = "TRY_CAST" if safe else "CAST"
    return value.called(f"{word}({{}} AS {duckdb_name(kind)})", kind, fails=not safe)


def _to_number(value: Value, kind: pa.DataType, *, safe: bool) -> Value:
    given = value.type
    if is_integer(kind):
        whole = value if is_integer(given) or given == BOOLEAN else value.called("trunc({})")
        if is_float(given) and kind == BIGINT:
            # Spark lets 2^63 itself, which is no BIGINT, pass as the one below it.
            most = Value(
                text=f"CASE WHEN {{}} = {_MOST} THEN {2**63 - 1} ELSE {{whole}} END", type=kind
            )
            text = most.text.replace("{whole}", convert(whole, kind, safe=safe).text)
            return value.called(f"({text})", kind, fails=not safe)
        widens = (is_integer(given) or given == BOOLEAN) and _bits(given) <= _bits(kind)
        return (
            convert(whole, kind, safe=safe and not widens).called("{}")
            if not widens
            else (value.called(f"CAST({{}} AS {duckdb_name(kind)})", kind))
        )
    if is_float(kind):
        return _to_float(value, kind)
    if is_float(given):
        return _float_to_decimal(value, kind, safe=safe)
    if given == BOOLEAN:
        value = value.called("CAST({} AS TINYINT)")
    found = convert(value, kind, safe=safe)
    widens = (
        is_decimal(given)
        and given.scale <= kind.scale
        and (given.precision - given.scale <= kind.precision - kind.scale)
    )
    return Value(text=found.text, type=kind, fails=value.fails or not (safe or widens))


def _bits(kind: pa.DataType) -> int:
    return 1 if kind == BOOLEAN else int(kind.bit_width)


def _to_float(value: Value, kind: pa.DataType) -> Value:
    """Of too large a double Spark makes an infinite float, where DuckDB fails."""
    name = duckdb_name(kind)
    if value.type == DOUBLE:
        fits = "{} BETWEEN -3.4028235677973362e38 AND 3.4028235677973362e38"
        beyond = "CAST(CASE WHEN {} > 0 THEN 'inf' ELSE '-inf' END AS FLOAT)"
        fits += " OR isnan({}) OR {} IS NULL"
        text = f"(CASE WHEN {fits} THEN CAST({{}} AS FLOAT) ELSE {beyond} END)"
        return value.called(text, kind)
    if is_decimal(value.type) and (value.type.precision > _EXACT_DIGITS or kind == FLOAT):
        return value.called(f"CAST(CAST({{}} AS VARCHAR) AS {name})", kind)
    return value.called(f"CAST({{}} AS {name})", kind)


def _float_to_decimal(value: Value, kind: pa.DataType, *, safe: bool) -> Value:
    """By way of the digits that a double is written with; what is no number is NULL."""
    text = f"TRY_CAST(CAST(CAST({{}} AS DOUBLE) AS VARCHAR) AS {duckdb_name(kind)})"
    fits = f"abs({{}}) < {_beyond(kind)}"
    tried = f"(CASE WHEN {fits} THEN {text} END)".replace("{}", value.text)
    if safe:
        return Value(text=tried, type=kind, fails=value.fails)
    failure = f"error(concat(CAST({value.text} AS VARCHAR), ' is too large'))"
    wrong = f"CASE WHEN isfinite({value.text}) THEN {failure} END"
    return Value(text=f"COALESCE({tried}, {wrong})", type=kind, fails=True)


def _beyond(kind: pa.DataType) -> str:
    """What a decimal cannot hold; DuckDB does not look where the text has an exponent."""
    return f"CAST('1e{kind.precision - kind.scale}' AS DOUBLE)"


def _to_text(value: Value) -> Value | None:
    given = value.type
    if is_integer(given) or is_decimal(given) or given == BOOLEAN:
        return value.called("CAST({} AS VARCHAR)", STRING)
    if is_time(given):
        # Years beyond four digits have a sign.
        sign = "CASE WHEN year({}) > 9999 THEN '+' WHEN year({}) < 0 THEN '-' ELSE '' END"
        digits = "CAST(abs(year({})) AS VARCHAR)"
        year = f"({sign} || repeat('0', 4 - length({digits})) || {digits})"
        rest = "strftime({}, '-%m-%d')"
        if given != DATE:
            rest = "strftime({}, '-%m-%d %H:%M:%S')"
            rest += " || rtrim(rtrim(strftime({}, '.%f'), '0'), '.')"
        usual = "{} BETWEEN DATE '1000-01-01' AND DATE '9999-12-31'"
        text = f"(CASE WHEN {usual} THEN CAST({{}} AS VARCHAR) ELSE {year} || {rest} END)"
        return value.called(text, STRING)
    return None


def _from_text(value: Value, kind: pa.DataType, *, safe: bool) -> Value | None:
    trimmed = f"regexp_replace({{}}, '^{_BLANK}+|{_BLANK}+$', '', 'g')"
    name = duckdb_name(kind)
    if is_integer(kind):
        tried = f"(CASE WHEN regexp_full_match({{}}, '[+-]?[0-9]+') THEN TRY_CAST({{}} AS {name})"
        tried += f" WHEN regexp_full_match({{}}, '{_BLANK}*[+-]?[0-9]+{_BLANK}*')"
        tried += f" THEN TRY_CAST({trimmed} AS {name}) END)"
        what = "is not a whole number"
    elif is_decimal(kind):
        digits = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?"
        # Java reads the digits of all scripts.
        ascii = (
            f"(CASE WHEN strlen({{}}) = length({{}}) THEN {trimmed} ELSE spark_digits({{}}) END)"
        )
        tried = f"(CASE WHEN regexp_full_match({ascii}, '{digits}')"
        tried += f" AND abs(TRY_CAST({ascii} AS DOUBLE)) <= {_beyond(kind)}"
        tried += f" THEN TRY_CAST({ascii} AS {name}) END)"
        what = "is not a number"
    elif is_float(kind):
        digits = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?"
        tried = f"(CASE WHEN regexp_full_match({{}}, '{digits}') THEN TRY_CAST({{}} AS DOUBLE)"
        tried += " ELSE spark_double({}) END)"
        if kind == FLOAT:
            return None
        what = "is not a number"
    elif kind == BOOLEAN:
        word = f"lower({trimmed})"
        tried = f"(CASE WHEN {word} IN ('t', 'true', 'y', 'yes', '1') THEN true"
        tried += f" WHEN {word} IN ('f', 'false', 'n', 'no', '0') THEN false END)"
        what = "is neither true nor false"
    elif kind == DATE:
        usual = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
        tried = f"(CASE WHEN regexp_full_match({{}}, '{usual}') THEN TRY_CAST({{}} AS DATE)"
        tried += " ELSE DATE '1970-01-01' + spark_date({}) END)"
        what = "is not a date"
    elif kind in (TIMESTAMP, TIMESTAMP_NTZ):
        usual = (
            r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
        )
        read = "spark_timestamp" if kind == TIMESTAMP else "spark_timestamp_ntz"
        tried = f"(CASE WHEN regexp_full_match({{}}, '{usual}') THEN TRY_CAST({{}} AS TIMESTAMP)"
        tried += f" ELSE make_timestamp({read}({{}})) END)"
        what = "is not a timestamp"
    elif kind == BINARY:
        return value.called("encode({})", BINARY)
    else:
        return None
    return strictly(value, tried.replace("{}", value.text), kind, safe=safe, what=what)


def _between_times(value: Value, kind: pa.DataType, *, safe: bool) -> Value | None:
    given = value.type
    if kind in (TIMESTAMP, TIMESTAMP_NTZ) and given in (TIMESTAMP, TIMESTAMP_NTZ):
        return value.called("{}", kind)
    if kind in (TIMESTAMP, TIMESTAMP_NTZ) and given == DATE:
        return convert(value, kind, safe=safe)
    if kind == DATE and is_time(given):
        return value.called("CAST({} AS DATE)", DATE)
    if given == TIMESTAMP and kind in (BIGINT, INT):
        seconds = value.called(
            "(epoch_us({}) // 1000000 - CAST(epoch_us({}) % 1000000 < 0 AS BIGINT))", BIGINT
        )
        return seconds if kind == BIGINT else convert(seconds, INT, safe=safe)
    if given == TIMESTAMP and kind == DOUBLE:
        return value.called("(CAST(epoch_us({}) AS DOUBLE) / 1000000)", DOUBLE)
    return None


def _cast_array(value: Value, kind: pa.DataType, *, safe: bool) -> Value | None:
    element = Value(text="e", type=value.type.value_type)
    inner = cast(element, kind.value_type, safe=safe)
    if inner is None:
        return None
    text = f"list_transform({{}}, lambda e: {inner.text})"
    return value.called(text, kind, fails=inner.fails)


def describe_cast(value: Value, kind: pa.DataType) -> str:
    """A cast in words.

    >>> describe_cast(Value(text="x", type=pa.float64()), pa.string())
    'a cast from double to string'
    """
    return f"a cast from {name_of(value.type)} to {name_of(kind)}"
