"""Plus, minus, times, divided by: results of the type Spark gives, failures where Spark fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

import pyarrow as pa

from anabranch.expressions.functions.casts import cast
from anabranch.expressions.functions.sharing import shared
from anabranch.expressions.functions.value import (
    BIGINT,
    DATE,
    DOUBLE,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Value,
    duckdb_name,
    is_decimal,
    is_float,
    is_integer,
    is_number,
)
from anabranch.expressions.functions.widening import (
    MAX_DIGITS,
    as_decimal,
    common_type,
    fails_any,
)

_LEAST_SCALE: Final = 6
EXACT_DIGITS: Final = 34
"""Spark computes with so many digits; what has more is rounded on the way."""


def plus(values: Sequence[Value]) -> Value | None:
    """The sum."""
    return (
        _shift(values[0], values[1], "+") or _shift(values[1], values[0], "+") or _add(values, "+")
    )


def minus(values: Sequence[Value]) -> Value | None:
    """The difference; of two instants, an interval."""
    one, two = values
    clocks = (TIMESTAMP, TIMESTAMP_NTZ)
    if one.type in clocks and two.type in clocks:
        text = f"(epoch_us({one.text}) - epoch_us({two.text}))"
        return Value(text=text, type=INTERVAL, fails=True)
    return _shift(one, two, "-") or _add(values, "-")


def times(values: Sequence[Value]) -> Value | None:
    """The product."""
    kind, one, two = _numbers(values)
    if kind is None:
        return None
    if is_decimal(kind):
        one, two = as_decimal(one), as_decimal(two)
        precision, scale = (
            one.type.precision + two.type.precision + 1,
            one.type.scale + two.type.scale,
        )
        if precision > EXACT_DIGITS:
            return None
        # DuckDB's product of two decimals of up to 18 digits has no more than 18 itself.
        wide = f"DECIMAL({max(one.type.precision, 19)}, {one.type.scale})"
        text = f"CAST(CAST({one.text} AS {wide}) * {two.text} AS DECIMAL({precision}, {scale}))"
        return Value(text=text, type=pa.decimal128(precision, scale), fails=fails_any(values))
    text = f"({one.text} * {two.text})"
    return Value(text=text, type=kind, fails=is_integer(kind) or fails_any(values))


def divided(values: Sequence[Value], *, safe: bool = False) -> Value | None:
    """The quotient: a double, or a decimal if there is one."""
    kind, one, two = _numbers(values)
    if kind is None:
        return None
    if is_decimal(kind):
        pair = [as_decimal(one), as_decimal(two)]
        return shared(pair, lambda both: _divide_decimals(both[0], both[1], safe=safe))
    left, right = cast(one, DOUBLE), cast(two, DOUBLE)
    assert left is not None
    assert right is not None
    pair = [left, replace(right, literal=two.literal)]
    return shared(pair, lambda both: _quotient(both[0], both[1], "/", DOUBLE, safe=safe))


def divided_whole(values: Sequence[Value]) -> Value | None:
    """The quotient without what is behind the point, of whole numbers."""
    if not all(is_integer(value.type) for value in values):
        return None
    left, right = cast(values[0], BIGINT), cast(values[1], BIGINT)
    assert left is not None
    assert right is not None
    pair = [left, replace(right, literal=values[1].literal)]
    return shared(pair, lambda both: _quotient(both[0], both[1], "//", BIGINT, safe=False))


def _quotient(one: Value, two: Value, sign: str, kind: pa.DataType, *, safe: bool) -> Value:
    return _guarded(one, two, f"({one.text} {sign} {two.text})", kind, safe=safe)


def remainder(values: Sequence[Value], *, safe: bool = False) -> Value | None:
    """What a division leaves, with the sign of the dividend."""
    kind, one, two = _numbers(values)
    if kind is None:
        return None
    return shared([one, two], lambda pair: _remainder(kind, pair[0], pair[1], safe=safe))


def _remainder(kind: pa.DataType, one: Value, two: Value, *, safe: bool) -> Value | None:
    if is_decimal(kind):
        one, two = as_decimal(one), as_decimal(two)
        scale = max(one.type.scale, two.type.scale)
        whole = min(one.type.precision - one.type.scale, two.type.precision - two.type.scale)
        kind = pa.decimal128(whole + scale, scale)
        text = f"CAST({one.text} % {two.text} AS {duckdb_name(kind)})"
        if max(one.type.precision, two.type.precision) + scale > EXACT_DIGITS:
            return None
    elif is_float(kind):
        text = f"({one.text} % {two.text})"
    else:
        # DuckDB takes the quotient of the smallest number and -1 for an overflow.
        text = f"(CASE WHEN {two.text} = -1 THEN {one.text} & 0 ELSE {one.text} % {two.text} END)"
        if _is_harmless(two):
            text = f"({one.text} % {two.text})"
    return _guarded(one, two, text, kind, safe=safe)


def positive_remainder(values: Sequence[Value]) -> Value | None:
    """What a division leaves, made positive for a positive divisor."""
    kind, one, two = _numbers(values)
    if kind is None or not is_integer(kind):
        return None
    return shared([one, two], lambda pair: _positive(kind, pair[0], pair[1]))


def _positive(kind: pa.DataType, one: Value, two: Value) -> Value | None:
    found = _remainder(kind, one, two, safe=False)
    assert found is not None
    name = duckdb_name(kind)
    sum_ = f"(CAST({found.text} AS HUGEINT) + {two.text})"
    # Java's sum goes round the edge of its type; of two negative numbers, the lower edge.
    edge = 2 ** (max(kind.bit_width, 32) - 1)
    again = f"(CASE WHEN {sum_} < {-edge} THEN {sum_} + {2 * edge} ELSE {sum_} END)"
    raised = f"CAST({again} % {two.text} AS {name})"
    text = f"(CASE WHEN {found.text} < 0 THEN {raised} ELSE {found.text} END)"
    return Value(text=text, type=kind, fails=True)


def negated(values: Sequence[Value]) -> Value | None:
    """With the other sign."""
    value = values[0]
    if is_integer(value.type):
        text = f"(CAST(0 AS {duckdb_name(value.type)}) - {{}})"
        return value.called(text, fails=True)
    if is_decimal(value.type) and value.type.precision > EXACT_DIGITS:
        return None
    if is_float(value.type) or is_decimal(value.type) or value.type == INTERVAL:
        return value.called("(-{})", fails=value.type == INTERVAL)
    return None


def fitting(values: Sequence[Value], sign: str) -> Value | None:
    """A sum, difference or product, NULL where it is too large for its type.

    Not DuckDB's TRY: what stands in it twice, it evaluates outside of it.
    """
    build = {"+": _sum, "-": _difference, "*": times}[sign]
    found = build(values)
    if found is None or not is_integer(found.type):
        return found
    _, one, two = _numbers(values)
    wide = f"(CAST({one.text} AS HUGEINT) {sign} CAST({two.text} AS HUGEINT))"
    most = 2 ** (found.type.bit_width - 1)
    fits = f"{wide} BETWEEN CAST('{-most}' AS HUGEINT) AND {most - 1}"
    text = f"(CASE WHEN {fits} THEN CAST({wide} AS {duckdb_name(found.type)}) END)"
    return Value(text=text, type=found.type, fails=fails_any(values))


def _sum(values: Sequence[Value]) -> Value | None:
    return _add(values, "+")


def _difference(values: Sequence[Value]) -> Value | None:
    return _add(values, "-")


def _add(values: Sequence[Value], sign: str) -> Value | None:
    if all(value.type == INTERVAL for value in values):
        return _add_intervals(values[0], values[1], sign)
    kind, one, two = _numbers(values)
    if kind is None:
        return None
    if is_decimal(kind):
        one, two = as_decimal(one), as_decimal(two)
        scale = max(one.type.scale, two.type.scale)
        whole = max(one.type.precision - one.type.scale, two.type.precision - two.type.scale)
        if whole + scale + 1 > EXACT_DIGITS:
            return None
        kind = pa.decimal128(whole + scale + 1, scale)
        left, right = (
            f"CAST({each.text} AS DECIMAL({whole + scale}, {scale}))" for each in (one, two)
        )
        text = f"CAST({left} {sign} {right} AS {duckdb_name(kind)})"
        return Value(text=text, type=kind, fails=fails_any(values))
    text = f"({one.text} {sign} {two.text})"
    return Value(text=text, type=kind, fails=is_integer(kind) or fails_any(values))


def _add_intervals(one: Value, two: Value, sign: str) -> Value:
    text = f"({one.text} {sign} {two.text})"
    literal: object = None
    if isinstance(one.literal, Days) and isinstance(two.literal, Days):
        literal = Days(one.literal + two.literal if sign == "+" else one.literal - two.literal)
    elif isinstance(one.literal, int) and isinstance(two.literal, int):
        # Which number does not matter any more, only that there are times of day in it.
        literal = Micros(0)
    return Value(text=text, type=INTERVAL, fails=True, literal=literal)


def _shift(base: Value, by: Value, sign: str) -> Value | None:
    """A date or an instant, moved by days or by an interval."""
    if base.type == DATE and is_integer(by.type) and by.type != BIGINT:
        text = f"({base.text} {sign} CAST({by.text} AS INTEGER))"
        return Value(text=text, type=DATE, fails=True)
    if base.type in (TIMESTAMP, TIMESTAMP_NTZ) and by.type == INTERVAL:
        text = f"make_timestamp(epoch_us({base.text}) {sign} {by.text})"
        return Value(text=text, type=base.type, fails=True)
    if isinstance(by.literal, Months):
        months = by.literal if sign == "+" else Months(-by.literal)
        return add_months(base, months)
    if base.type == DATE and isinstance(by.literal, Days):
        text = f"({base.text} {sign} {int(by.literal)})"
        return Value(text=text, type=DATE, fails=True)
    if base.type == DATE and isinstance(by.literal, Micros):
        midnight = cast(base, TIMESTAMP)
        return None if midnight is None else _shift(midnight, by, sign)
    return None


class Months(int):
    """How many months an interval of years and months has."""


class Days(int):
    """How many days an interval of days has; a date moved by it stays a date."""


class Micros(int):
    """How many microseconds an interval of smaller units has."""


def add_months(base: Value, months: Months) -> Value | None:
    """A date or an instant in another month; a day that is not there is the last one there."""
    if base.type == DATE:
        text = f"CAST({base.text} + to_months({int(months)}) AS DATE)"
    elif base.type in (TIMESTAMP, TIMESTAMP_NTZ):
        text = f"({base.text} + to_months({int(months)}))"
    else:
        return None
    return Value(text=text, type=base.type, fails=True)


def _numbers(values: Sequence[Value]) -> tuple[pa.DataType | None, Value, Value]:
    """Two numbers of one type; decimals are left as they are."""
    one, two = values
    kinds = [value.type for value in values]
    if STRING in kinds and not all(kind == STRING for kind in kinds):
        kind = common_type(kinds)
    elif all(is_number(kind) or kind == NULL for kind in kinds) and kinds != [NULL, NULL]:
        kind = common_type(kinds)
        if kind is None and any(map(is_decimal, kinds)):
            kind = next(filter(is_decimal, kinds))
    else:
        kind = None
    if kind is None or not is_number(kind):
        return None, one, two
    if is_decimal(kind):
        if NULL in kinds:
            return None, one, two
        return kind, one, two
    left, right = cast(one, kind), cast(two, kind)
    if left is None or right is None:
        return None, one, two
    return kind, replace(left, literal=one.literal), replace(right, literal=two.literal)


def _is_harmless(divisor: Value) -> bool:
    return isinstance(divisor.literal, (int, float, Decimal)) and divisor.literal not in (0, -1)


def _guarded(one: Value, two: Value, text: str, kind: pa.DataType, *, safe: bool) -> Value:
    """A division that fails for zero, where DuckDB gives infinity or NULL."""
    fails = fails_any((one, two))
    if _is_harmless(two):
        return Value(text=text, type=kind, fails=fails)
    otherwise = "NULL" if safe else "error('division by zero')"
    # NULL divided by zero is NULL.
    zero = f"{two.text} = 0 AND {one.text} IS NOT NULL"
    guarded = f"(CASE WHEN {zero} THEN {otherwise} WHEN {two.text} <> 0 THEN {text} END)"
    return Value(text=guarded, type=kind, fails=fails or not safe)


def _divide_decimals(one: Value, two: Value, *, safe: bool) -> Value | None:
    """Whole numbers of the smallest unit are divided, and rounded half up."""
    (p1, s1), (p2, s2) = ((each.type.precision, each.type.scale) for each in (one, two))
    scale = max(_LEAST_SCALE, s1 + p2 + 1)
    precision = p1 - s1 + s2 + scale
    if (
        max(precision + scale, p1 + s1 + 1, p2 + s2 + 1, p1 + scale + s2 - s1) > MAX_DIGITS
        or precision > EXACT_DIGITS
    ):
        return None
    above = f"{_units(one)} * {10 ** (scale + s2 - s1)}"
    below = _units(two)
    # Twice the quotient and one more, halved, is the rounded quotient.
    half = f"((abs({above}) * 2 // abs({below}) + 1) // 2)"
    sign = f"(CASE WHEN ({one.text} < 0) = ({two.text} < 0) THEN 1 ELSE -1 END)"
    unit = f"CAST('0.{1:0{scale}}' AS DECIMAL({scale}, {scale}))"
    kind = pa.decimal128(precision, scale)
    text = f"CAST(CAST({half} * {sign} AS DECIMAL({precision}, 0)) * {unit} AS {duckdb_name(kind)})"
    return _guarded(one, two, text, kind, safe=safe)


def _units(value: Value) -> str:
    """A decimal as the number of its smallest units."""
    scale = value.type.scale
    return f"CAST({value.text} * CAST({10**scale} AS DECIMAL({scale + 1}, 0)) AS HUGEINT)"
