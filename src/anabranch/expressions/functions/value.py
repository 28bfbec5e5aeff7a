"""A value inside an expression: the type Spark gives it, and DuckDB's text for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import pyarrow as pa

NULL: Final = pa.null()
BOOLEAN: Final = pa.bool_()
TINYINT: Final = pa.int8()
SMALLINT: Final = pa.int16()
INT: Final = pa.int32()
BIGINT: Final = pa.int64()
FLOAT: Final = pa.float32()
DOUBLE: Final = pa.float64()
STRING: Final = pa.string()
BINARY: Final = pa.binary()
DATE: Final = pa.date32()
TIMESTAMP_NTZ: Final = pa.timestamp("us")
TIMESTAMP: Final = pa.timestamp("us", "UTC")
INTERVAL: Final = pa.duration("us")
"""A span of days and times of day. In DuckDB it is a BIGINT of microseconds."""

INTEGERS: Final = (TINYINT, SMALLINT, INT, BIGINT)
_NAMES: Final = {
    NULL: ("void", '"NULL"'),
    BOOLEAN: ("boolean", "BOOLEAN"),
    TINYINT: ("tinyint", "TINYINT"),
    SMALLINT: ("smallint", "SMALLINT"),
    INT: ("int", "INTEGER"),
    BIGINT: ("bigint", "BIGINT"),
    FLOAT: ("float", "FLOAT"),
    DOUBLE: ("double", "DOUBLE"),
    STRING: ("string", "VARCHAR"),
    BINARY: ("binary", "BLOB"),
    DATE: ("date", "DATE"),
    TIMESTAMP_NTZ: ("timestamp_ntz", "TIMESTAMP"),
    # All instants are seen in UTC, where a clock on the wall shows the same.
    TIMESTAMP: ("timestamp", "TIMESTAMP"),
    INTERVAL: ("interval day to second", "BIGINT"),
}
_READ_AS: Final = {
    pa.uint8(): SMALLINT,
    pa.uint16(): INT,
    pa.uint32(): BIGINT,
    pa.uint64(): pa.decimal128(20, 0),
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.large_binary(): BINARY,
    pa.binary_view(): BINARY,
    pa.date64(): DATE,
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A part of an expression; `literal` is what is written there, if it is a constant.

    The text can stand anywhere: it is a name, a call, or in parentheses. `fails` says that there
    may be rows for which there is no value at all.
    """

    text: str
    type: pa.DataType
    fails: bool = False
    literal: object = None

    def called(self, text: str, kind: pa.DataType | None = None, *, fails: bool = False) -> Value:
        """The outcome of a function of this value; `{}` stands for the value."""
        built = text.replace("{}", self.text)
        return Value(text=built, type=kind or self.type, fails=self.fails or fails)


Build = Callable[[Sequence[Value]], "Value | None"]
"""What a function makes of its arguments; None if it is not for these."""


def may_fail(value: Value, fails: bool = True) -> Value:
    """The same value, which may fail if `fails`."""
    return replace(value, fails=value.fails or fails)


def type_in_spark(kind: pa.DataType) -> pa.DataType | None:
    """The type Spark reads a column of an Arrow type as; None if the two have nothing in common.

    >>> type_in_spark(pa.uint16()), type_in_spark(pa.timestamp("ms", "Europe/Berlin"))
    (DataType(int32), TimestampType(timestamp[us, tz=UTC]))
    """
    if kind in _NAMES or pa.types.is_decimal128(kind):
        return kind
    if kind in _READ_AS:
        return _READ_AS[kind]
    if pa.types.is_timestamp(kind):
        return TIMESTAMP_NTZ if kind.tz is None else TIMESTAMP
    if pa.types.is_duration(kind):
        return INTERVAL
    if pa.types.is_dictionary(kind):
        return type_in_spark(kind.value_type)
    if is_array(kind):
        element = type_in_spark(kind.value_type)
        return None if element is None else pa.list_(element)
    if pa.types.is_map(kind):
        key, item = type_in_spark(kind.key_type), type_in_spark(kind.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_struct(kind):
        fields = [(field.name, type_in_spark(field.type)) for field in kind]
        return None if any(part is None for _, part in fields) else pa.struct(fields)
    return None


def type_in_duckdb(kind: pa.DataType) -> pa.DataType:
    """The Arrow type that a value of one of Spark's types has on its way to and from DuckDB."""
    if kind == TIMESTAMP:
        return TIMESTAMP_NTZ
    if kind == INTERVAL:
        return BIGINT
    if is_array(kind):
        return pa.list_(type_in_duckdb(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(type_in_duckdb(kind.key_type), type_in_duckdb(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, type_in_duckdb(field.type)) for field in kind])
    return kind


def name_of(kind: pa.DataType) -> str:
    """A type as Spark's SQL writes it.

    >>> name_of(pa.list_(pa.decimal128(9, 2)))
    'array<decimal(9,2)>'
    """
    if kind in _NAMES:
        return _NAMES[kind][0]
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if is_array(kind):
        return f"array<{name_of(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{name_of(kind.key_type)},{name_of(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{name_of(field.type)}' for field in kind)}>"
    return str(kind)


def duckdb_name(kind: pa.DataType) -> str:
    """A type as DuckDB's SQL writes it.

    >>> duckdb_name(pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]))
    'STRUCT("a" INTEGER, "b" VARCHAR[])'
    """
    if kind in _NAMES:
        return _NAMES[kind][1]
    if pa.types.is_decimal128(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if is_array(kind):
        return f"{duckdb_name(kind.value_type)}[]"
    if pa.types.is_map(kind):
        return f"MAP({duckdb_name(kind.key_type)}, {duckdb_name(kind.item_type)})"
    assert pa.types.is_struct(kind)
    fields = (f"{quoted(field.name)} {duckdb_name(field.type)}" for field in kind)
    return f"STRUCT({', '.join(fields)})"


def quoted(name: str) -> str:
    """A name in DuckDB's quotes."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """A text in DuckDB's quotes; DuckDB has no way to write a zero character in them."""
    parts = ["'" + part.replace("'", "''") + "'" for part in text.split("\0")]
    return parts[0] if len(parts) == 1 else f"({' || chr(0) || '.join(parts)})"


def is_array(kind: pa.DataType) -> bool:
    """Whether values are lists, of any layout."""
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def is_integer(kind: pa.DataType) -> bool:
    """Whether values are whole numbers of one of Spark's four sizes."""
    return kind in INTEGERS


def is_float(kind: pa.DataType) -> bool:
    """Whether values are binary fractions."""
    return kind in (FLOAT, DOUBLE)


def is_decimal(kind: pa.DataType) -> bool:
    """Whether values are decimal fractions."""
    return bool(pa.types.is_decimal128(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether values can be added up."""
    return is_integer(kind) or is_float(kind) or is_decimal(kind)


def is_time(kind: pa.DataType) -> bool:
    """Whether values are dates or instants."""
    return kind in (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def is_plain(kind: pa.DataType) -> bool:
    """Whether values have no parts."""
    return kind in _NAMES or is_decimal(kind)
