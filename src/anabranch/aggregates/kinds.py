"""Types of arguments that aggregate functions take."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_NUMBERS: Final = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_STRINGS: Final = (pa.types.is_string, pa.types.is_large_string)
_ORDERED: Final = (
    *(*_NUMBERS, *_STRINGS),
    pa.types.is_boolean,
    pa.types.is_binary,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_duration,
)


def any_kind(kind: pa.DataType) -> bool:
    """Values of every type."""
    del kind
    return True


def never(kind: pa.DataType) -> bool:
    """Values of no type."""
    del kind
    return False


def is_number(kind: pa.DataType) -> bool:
    """Integers, floats and decimals."""
    return any(test(kind) for test in _NUMBERS)


def is_ordered(kind: pa.DataType) -> bool:
    """Values of which one is the smallest."""
    return any(test(kind) for test in _ORDERED)


def is_comparable(kind: pa.DataType) -> bool:
    """Values with an order, and structs of them, which are compared field by field."""
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(is_comparable(field.type) for field in kind)
    return is_ordered(kind) or bool(pa.types.is_null(kind))


def is_text(kind: pa.DataType) -> bool:
    """Strings."""
    return any(test(kind) for test in _STRINGS)


def same_kind(kind: pa.DataType) -> pa.DataType:
    """The result has the type of the argument."""
    return kind


def whole_count(kind: pa.DataType) -> pa.DataType:
    """The result is a count."""
    del kind
    return pa.int64()


def real_number(kind: pa.DataType) -> pa.DataType:
    """The result is a double."""
    del kind
    return pa.float64()


def one_text(kind: pa.DataType) -> pa.DataType:
    """The result is a text."""
    del kind
    return pa.string()


def list_of(kind: pa.DataType) -> pa.DataType:
    """The result is an array of the values."""
    return pa.list_(pa.field("element", kind))


def scale_of(kind: pa.DataType) -> int:
    """A decimal is a whole number over 10^scale."""
    return int(kind.scale) if pa.types.is_decimal(kind) else 0
