"""Types that Spark changes without being asked, under the rules of ANSI SQL."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import reduce
from typing import Final

import pyarrow as pa

from anabranch.expressions.functions.casts import cast
from anabranch.expressions.functions.value import (
    BIGINT,
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGERS,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Value,
    is_array,
    is_decimal,
    is_float,
    is_integer,
    is_number,
    is_time,
)

_DIGITS: Final = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}
MAX_DIGITS: Final = 38


def common_type(kinds: Iterable[pa.DataType]) -> pa.DataType | None:
    """The type that values of several types become where they stand side by side.

    >>> common_type([pa.int32(), pa.float32()]), common_type([pa.bool_(), pa.int32()])
    (DataType(double), None)
    """
    found: pa.DataType | None = NULL
    for kind in kinds:
        found = None if found is None else _common(found, kind)
    return found


def _common(one: pa.DataType, two: pa.DataType) -> pa.DataType | None:
    if one == two or two == NULL:
        return one
    if one == NULL:
        return two
    if is_integer(one) and is_integer(two):
        return max(one, two, key=INTEGERS.index)
    if is_number(one) and is_number(two):
        if is_float(one) or is_float(two):
            return DOUBLE
        return _common_decimal(as_decimal_type(one), as_decimal_type(two))
    if is_time(one) and is_time(two):
        return TIMESTAMP if TIMESTAMP in (one, two) else TIMESTAMP_NTZ
    if STRING in (one, two):
        other = two if one == STRING else one
        return _instead_of_string(other)
    if is_array(one) and is_array(two):
        element = _common(one.value_type, two.value_type)
        return None if element is None else pa.list_(element)
    return None


def _instead_of_string(kind: pa.DataType) -> pa.DataType | None:
    if is_integer(kind):
        return BIGINT
    if is_number(kind):
        return DOUBLE
    return kind if is_time(kind) or kind in (pa.bool_(), BINARY) else None


def as_decimal_type(kind: pa.DataType) -> pa.DataType:
    """The decimal that holds all values of a type of whole numbers."""
    return kind if is_decimal(kind) else pa.decimal128(_DIGITS[kind], 0)


def _common_decimal(one: pa.DataType, two: pa.DataType) -> pa.DataType | None:
    scale = max(one.scale, two.scale)
    whole = max(one.precision - one.scale, two.precision - two.scale)
    return pa.decimal128(whole + scale, scale) if whole + scale <= MAX_DIGITS else None


def with_common_type(values: list[Value]) -> list[Value] | None:
    """Values of one common type, as those of `CASE` or `IN`; None if there is none."""
    kind = common_type(value.type for value in values)
    if kind is None:
        return None
    found = [cast(value, kind) for value in values]
    fitting = [value for value in found if value is not None]
    return fitting if len(fitting) == len(values) else None


def as_decimal(value: Value) -> Value:
    """A number as a decimal; a literal is as narrow as it can be."""
    if isinstance(value.literal, int) and not isinstance(value.literal, bool):
        return Value(
            text=f"CAST({value.literal} AS DECIMAL({len(str(abs(value.literal)))}, 0))",
            type=pa.decimal128(len(str(abs(value.literal))), 0),
            literal=Decimal(value.literal),
        )
    found = cast(value, as_decimal_type(value.type))
    assert found is not None
    return found


def implicit(value: Value, kind: pa.DataType) -> Value | None:
    """An argument as a function wants it; None if Spark or this table does not change it so."""
    if value.type == kind:
        return value
    given = value.type
    fits = (
        given == NULL
        or (is_integer(given) and is_integer(kind) and _wider(kind, given))
        or (kind == DOUBLE and is_number(given))
        or (kind == FLOAT and is_integer(given))
        or (kind in (TIMESTAMP, TIMESTAMP_NTZ) and is_time(given) and given != TIMESTAMP)
        or (kind == DATE and is_time(given))
        or (kind == BINARY and given == STRING)
        or (kind == STRING and (is_integer(given) or is_decimal(given) or given in _AS_TEXT))
    )
    return cast(value, kind) if fits else None


_AS_TEXT: Final = (pa.bool_(), DATE, TIMESTAMP, TIMESTAMP_NTZ)


def _wider(kind: pa.DataType, given: pa.DataType) -> bool:
    return INTEGERS.index(kind) > INTEGERS.index(given)


def fails_any(values: Iterable[Value]) -> bool:
    """Whether one of the values may fail."""
    return reduce(lambda found, value: found or value.fails, values, False)
