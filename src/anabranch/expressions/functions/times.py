"""Functions of dates and instants, which are seen in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from anabranch.expressions.functions.casts import cast, strictly
from anabranch.expressions.functions.signature import (
    Function,
    Signature,
    Text,
    function,
    signature,
    table,
)
from anabranch.expressions.functions.time_patterns import read, written
from anabranch.expressions.functions.value import (
    DATE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Build,
    Value,
    is_time,
)

_FIELDS: Final = {
    "year": "year y years yr yrs",
    "yearofweek": "yearofweek",
    "quarter": "quarter qtr",
    "month": "month mon mons months",
    "week": "week w weeks",
    "day": "day d days",
    "dayofweek": "dayofweek dow",
    "isodow": "dayofweek_iso dow_iso",
    "dayofyear": "doy",
    "hour": "hour h hours hr hrs",
    "minute": "minute m min mins minutes",
    "second": "second s sec seconds secs",
}
_UNITS: Final = {
    "year": "year yyyy yy",
    "quarter": "quarter",
    "month": "month mon mm",
    "week": "week",
    "day": "day dd",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
    "millisecond": "millisecond",
    "microsecond": "microsecond",
}
_DAYS: Final = ("mo mon monday", "tu tue tuesday", "we wed wednesday", "th thu thursday",
                "fr fri friday", "sa sat saturday", "su sun sunday")  # fmt: skip
_SECONDS: Final = "(epoch_us({0}) // {1} - CAST(epoch_us({0}) % {1} < 0 AS BIGINT))"


def _named(names: dict[str, str], word: object) -> str | None:
    found = (name for name, words in names.items() if str(word).lower() in words.split())
    return next(found, None)


def extract(field: str, value: Value) -> Value | None:
    """One field of a date or an instant."""
    name = _named(_FIELDS, field)
    if name is None or not is_time(value.type):
        return None
    if name == "second":
        micros = "((epoch_us(CAST({} AS TIMESTAMP)) % 60000000 + 60000000) % 60000000)"
        text = f"CAST({micros} AS DECIMAL(8, 0)) * CAST('0.000001' AS DECIMAL(7, 6))"
        return value.called(f"CAST({text} AS DECIMAL(8, 6))", pa.decimal128(8, 6))
    if name in ("hour", "minute"):
        return value.called(f"CAST({name}(CAST({{}} AS TIMESTAMP)) AS INTEGER)", pa.int32())
    if name == "dayofweek":
        return value.called("CAST(dayofweek({}) + 1 AS INTEGER)", pa.int32())
    text = {"yearofweek": "isoyear", "week": "weekofyear"}.get(name, name)
    return value.called(f"CAST({text}({{}}) AS INTEGER)", pa.int32())


def _field(names: str, text: str) -> tuple[Function, ...]:
    return function(names, signature("date", "int", f"CAST({text} AS INTEGER)"))


def _clock_field(name: str) -> tuple[Function, ...]:
    return function(
        name,
        signature("clock", "int", f"CAST({name}({{0}}) AS INTEGER)"),
        signature("timestamp", "int", f"CAST({name}({{0}}) AS INTEGER)"),
    )


def _date_part(values: Sequence[Value]) -> Value | None:
    return extract(str(values[0].literal), values[1])


def _truncated(values: Sequence[Value]) -> str | None:
    unit = _named(_UNITS, values[0].literal)
    return None if unit is None else f"CAST(date_trunc('{unit}', {values[1].text}) AS TIMESTAMP)"


def _truncated_date(values: Sequence[Value]) -> str | None:
    unit = _named(_UNITS, values[1].literal)
    if unit not in ("year", "quarter", "month", "week"):
        return None
    return f"CAST(date_trunc('{unit}', {values[0].text}) AS DATE)"


def _next_day(values: Sequence[Value]) -> str | None:
    word = str(values[1].literal).lower()
    found = (number for number, words in enumerate(_DAYS, 1) if word in words.split())
    number = next(found, None)
    if number is None:
        return None
    date = values[0].text
    return f"({date} + CAST(({number} - isodow({date}) + 6) % 7 + 1 AS INTEGER))"


def _formatted(values: Sequence[Value]) -> str | None:
    text = written(str(values[1].literal))
    return None if text is None else _unless_null(text, values[0].text)


def _unless_null(text: str, value: str) -> str:
    return f"(CASE WHEN {value} IS NOT NULL THEN {text.replace('{}', value)} END)"


def _converted(kind: pa.DataType, *, safe: bool = False) -> Build:
    """`to_date` and its kin: a cast, or a reading by a pattern."""

    def build(values: Sequence[Value]) -> Value | None:
        value = values[0]
        if len(values) == 1 or is_time(value.type):
            if value.type != STRING and not is_time(value.type):
                return None
            return cast(value, kind, safe=safe)
        text = read(str(values[1].literal))
        if text is None or value.type != STRING:
            return None
        tried = text.replace("{}", value.text)
        if kind == DATE:
            tried = f"CAST({tried} AS DATE)"
        return strictly(value, tried, kind, safe=safe, what="does not match the pattern")

    return build


def _conversion(names: str, kind: pa.DataType, *, safe: bool = False) -> tuple[Function, ...]:
    build = _converted(kind, safe=safe)

    def text(values: Sequence[Value]) -> str | None:
        found = build(values)
        return None if found is None else found.text

    return function(
        names,
        signature("any", lambda _: kind, text, fails=not safe),
        signature("any, string constant", lambda _: kind, text, fails=not safe),
    )


def _made(kind: str) -> Signature:
    """A timestamp from its parts; sixty seconds are a minute more."""

    def text(values: Sequence[Value]) -> str:
        parts = [value.text for value in values]
        seconds = f"CAST({parts[5]} AS DECIMAL(16, 6))"
        legal = f"{parts[3]} BETWEEN 0 AND 23 AND {parts[4]} BETWEEN 0 AND 59"
        legal += f" AND ({seconds} >= 0 AND {seconds} < 60 OR {seconds} = 60)"
        midnight = (
            f"epoch_us(make_date({', '.join(f'CAST({part} AS BIGINT)' for part in parts[:3])}))"
        )
        micros = f"CAST({seconds} * 1000000 AS BIGINT)"
        minutes = f"(CAST({parts[3]} AS BIGINT) * 60 + {parts[4]})"
        made = f"make_timestamp({midnight} + {minutes} * 60000000 + {micros})"
        nothing = " OR ".join(f"{part} IS NULL" for part in parts)
        failure = "error('there is no such time')"
        return f"(CASE WHEN {nothing} THEN NULL WHEN {legal} THEN {made} ELSE {failure} END)"

    return signature("int, int, int, int, int, number", kind, text, fails=True)


def _days_between(values: Sequence[Value]) -> str:
    return f"CAST(date_diff('day', {values[1].text}, {values[0].text}) AS INTEGER)"


def _moved(sign: str) -> Text:
    def text(values: Sequence[Value]) -> str:
        return f"({values[0].text} {sign} {values[1].text})"

    return text


def _date_part_signature() -> Signature:
    def kind(values: Sequence[Value]) -> pa.DataType | None:
        found = _date_part(values)
        return None if found is None else found.type

    def text(values: Sequence[Value]) -> str | None:
        found = _date_part(values)
        return None if found is None else found.text

    return signature("string constant, time", kind, text)


_MICROS: Final = "make_timestamp(CAST({0} AS BIGINT) * %d)"

TIMES: Final = table(
    _field("year", "year({0})"),
    _field("month", "month({0})"),
    _field("day dayofmonth", "day({0})"),
    _field("quarter", "quarter({0})"),
    _field("dayofyear", "dayofyear({0})"),
    _field("weekofyear", "weekofyear({0})"),
    _field("dayofweek", "dayofweek({0}) + 1"),
    _field("weekday", "isodow({0}) - 1"),
    function("unix_date", signature("day", "int", "CAST({0} - DATE '1970-01-01' AS INTEGER)")),
    _clock_field("hour"),
    _clock_field("minute"),
    _clock_field("second"),
    function("date_part datepart extract", _date_part_signature()),
    function("dayname", signature("date", "string", "strftime({0}, '%a')")),
    function("monthname", signature("date", "string", "strftime({0}, '%b')")),
    function("date_trunc", signature("string constant, timestamp", "timestamp", _truncated)),
    function("trunc", signature("date, string constant", "date", _truncated_date)),
    function("date_add dateadd", signature("date, int", "date", _moved("+"), fails=True)),
    function("date_sub", signature("date, int", "date", _moved("-"), fails=True)),
    function("datediff date_diff", signature("date, date", "int", _days_between)),
    function(
        "add_months",
        signature("date, int", "date", "CAST({0} + to_months({1}) AS DATE)", fails=True),
    ),
    function("last_day", signature("date", "date", "last_day({0})")),
    function("next_day", signature("date, string constant", "date", _next_day)),
    function(
        "make_date",
        signature(
            "int, int, int",
            "date",
            "make_date(CAST({0} AS BIGINT), CAST({1} AS BIGINT), CAST({2} AS BIGINT))",
            fails=True,
        ),
    ),
    function("make_timestamp make_timestamp_ltz", _made("timestamp")),
    function("make_timestamp_ntz", _made("timestamp_ntz")),
    function(
        "date_from_unix_date", signature("int", "date", "(DATE '1970-01-01' + {0})", fails=True)
    ),
    function("unix_micros", signature("clock", "bigint", "epoch_us({0})")),
    function("unix_millis", signature("clock", "bigint", _SECONDS.replace("{1}", "1000"))),
    function("unix_seconds", signature("clock", "bigint", _SECONDS.replace("{1}", "1000000"))),
    function(
        "to_unix_timestamp unix_timestamp",
        signature("time", "bigint", "(epoch_us(CAST({0} AS TIMESTAMP)) // 1000000)"),
    ),
    function("timestamp_millis", signature("bigint", "timestamp", _MICROS % 1000, fails=True)),
    function("timestamp_seconds", signature("bigint", "timestamp", _MICROS % 1000000, fails=True)),
    function("date_format", signature("timestamp, string constant", "string", _formatted)),
    _conversion("to_date", DATE),
    _conversion("try_to_date", DATE, safe=True),
    _conversion("to_timestamp to_timestamp_ltz", TIMESTAMP),
    _conversion("try_to_timestamp", TIMESTAMP, safe=True),
    _conversion("to_timestamp_ntz", TIMESTAMP_NTZ),
)
