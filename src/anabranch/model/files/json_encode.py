"""Columns as JSON text, all rows at once."""

from __future__ import annotations

import base64
import json
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import StreamError

_NEEDS_ESCAPE: Final = r'["\\\x00-\x1f]'


def json_text(column: pa.Array) -> pa.Array:
    """The JSON text of every value, as strings without nulls.

    Numbers and decimals are numbers, NaN and infinities are the words that most JSON readers know
    (`NaN`, `Infinity`), dates and timestamps are ISO strings, durations are counts of their unit,
    bytes are base64, and a map is a list of `{"key": ..., "value": ...}`.

    >>> json_text(pa.array([{"price": 80.0, "tags": ["a", None]}, None])).to_pylist()
    ['{"price": 80.0, "tags": ["a", null]}', 'null']
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return pc.fill_null(_text(column), "null")


def row_text(rows: pa.RecordBatch, length: int) -> pa.Array:
    """The JSON object of every row."""
    if not rows.num_columns:
        return pa.array(["{}"] * length, pa.string())
    names = [json.dumps(name, ensure_ascii=False) for name in rows.schema.names]
    parts: list[pa.Array | pa.Scalar] = []
    for index, (name, column) in enumerate(zip(names, rows.columns)):
        parts += [pa.scalar(f"{', ' if index else '{'}{name}: "), json_text(column)]
    return joined(*parts, "}")


def joined(*parts: pa.Array | pa.Scalar | str) -> pa.Array:
    """Texts put together row by row."""
    return pc.binary_join_element_wise(*parts, "")


def _text(column: pa.Array) -> pa.Array:
    """The text of all values that are not null."""
    kind, types = column.type, pa.types
    if types.is_null(kind):
        return column.cast(pa.string())
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_decimal(kind):
        return column.cast(pa.string())
    if types.is_floating(kind):
        return _float_text(column)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return _quoted(column.cast(pa.string()))
    if types.is_dictionary(kind):
        return _text(column.dictionary_decode())
    if types.is_date(kind) or types.is_time(kind):
        return joined('"', column.cast(pa.string()), '"')
    if types.is_timestamp(kind):
        # As UTC without a zone: the zone is a matter of the schema.
        return joined('"', column.cast(pa.timestamp(kind.unit)).cast(pa.string()), '"')
    if types.is_duration(kind):
        return column.cast(pa.int64()).cast(pa.string())
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        encoded = [None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()]
        return joined('"', pa.array(encoded, pa.string()), '"')
    if types.is_struct(kind):
        return _struct_text(column)
    if types.is_map(kind) or types.is_list(kind) or types.is_large_list(kind):
        return _list_text(column)
    if types.is_fixed_size_list(kind):
        return _list_text(column.cast(pa.list_(kind.value_field)))
    raise StreamError(
        f"values of type {kind} cannot be written as JSON",
        hint="write the stream as Parquet, or cast the column to another type",
    )


def _float_text(column: pa.Array) -> pa.Array:
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    text = column.cast(pa.string())
    text = pc.if_else(pc.match_substring_regex(text, "^-?[0-9]+$"), joined(text, ".0"), text)
    if pc.all(pc.is_finite(column), min_count=0).as_py():
        return text
    for theirs, ours in (("^-?nan$", "NaN"), ("^inf$", "Infinity"), ("^-inf$", "-Infinity")):
        text = pc.replace_substring_regex(text, theirs, ours)
    return text


def _quoted(column: pa.Array) -> pa.Array:
    text = joined('"', column, '"')
    special = pc.fill_null(pc.match_substring_regex(column, _NEEDS_ESCAPE), False)
    if not pc.any(special, min_count=0).as_py():
        return text
    escaped = [json.dumps(v, ensure_ascii=False) for v in column.filter(special).to_pylist()]
    return pc.replace_with_mask(text, special, pa.array(escaped, pa.string()))


def _struct_text(column: pa.Array) -> pa.Array:
    fields = [column.type.field(i) for i in range(column.type.num_fields)]
    children = [column.field(i) for i in range(column.type.num_fields)]
    rows = pa.RecordBatch.from_arrays(children, names=[field.name for field in fields])
    return pc.if_else(column.is_valid(), row_text(rows, len(column)), pa.scalar(None, pa.string()))


def _list_text(column: pa.Array) -> pa.Array:
    if pa.types.is_map(column.type):
        entries = pa.RecordBatch.from_arrays([column.keys, column.items], names=["key", "value"])
        parts = row_text(entries, len(column.keys))
    else:
        parts = json_text(column.values)
    offsets = column.offsets.cast(pa.int32())
    lists = pa.ListArray.from_arrays(offsets, parts)
    text = joined("[", pc.binary_join(lists, ", "), "]")
    return pc.if_else(column.is_valid(), text, pa.scalar(None, pa.string()))
