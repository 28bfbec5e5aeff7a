"""Columns and their types in the words of Spark: `price: double`."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_NAMES: Final = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.null(): "void",
}


def type_text(kind: pa.DataType) -> str:
    """A type as Spark writes it.

    >>> type_text(pa.list_(pa.int32())), type_text(pa.timestamp("us"))
    ('array<int>', 'timestamp_ntz')
    """
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{type_text(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_text(kind.key_type)},{type_text(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{each.name}:{type_text(each.type)}' for each in kind)}>"
    return str(kind)


def columns_text(schema: pa.Schema) -> str:
    """All columns in one line.

    >>> columns_text(pa.schema([("item", pa.int64()), ("price", pa.float64())]))
    'item: bigint, price: double'
    """
    return ", ".join(f"{field.name}: {type_text(field.type)}" for field in schema)


def schema_tree(schema: pa.Schema) -> str:
    """The columns as `printSchema` of Spark writes them."""
    lines = ["root"]
    lines += [
        f" |-- {field.name}: {type_text(field.type)} (nullable = {str(field.nullable).lower()})"
        for field in schema
    ]
    return "\n".join(lines) + "\n"
