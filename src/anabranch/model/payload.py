"""Payloads as plain values that compare as SQL's `IS NOT DISTINCT FROM` does."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

Payload = tuple[Any, ...]
"""One row of the user's columns, frozen."""


def freeze(value: Any) -> Any:
    """A hashable value that equals another one exactly when SQL cannot tell them apart.

    NaN becomes one object (so it equals itself), -0.0 becomes 0.0, structs and lists become
    tuples; the rest stays as it is.

    >>> freeze({"bid": [1.0, -0.0], "note": None})
    ((1.0, 0.0), None)
    >>> freeze([float("nan")]) == freeze([float("-nan")])
    True
    """
    if isinstance(value, float):
        return math.nan if value != value else value + 0.0
    if isinstance(value, dict):
        return tuple(freeze(part) for part in value.values())
    if isinstance(value, (list, tuple)):
        return tuple(freeze(part) for part in value)
    return value


def payloads(rows: pa.RecordBatch, length: int) -> list[Payload]:
    """The rows as frozen tuples (`length` counts where there are no columns)."""
    if not rows.num_columns:
        return [()] * length
    columns = [[freeze(value) for value in column.to_pylist()] for column in rows.columns]
    return list(zip(*columns))


def rows_of(tuples: Sequence[Payload], schema: pa.Schema) -> pa.RecordBatch:
    """The other way: frozen tuples as columns."""
    columns = [
        pa.array([_thaw(row[position], field.type) for row in tuples], field.type)
        for position, field in enumerate(schema)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def sort_key(value: Any) -> tuple[Any, ...]:
    """An order over all frozen values: nulls first, NaN last among the numbers."""
    if value is None:
        return (0,)
    if isinstance(value, tuple):
        return (4, *(sort_key(part) for part in value))
    if isinstance(value, str):
        return (2, value)
    if isinstance(value, bytes):
        return (3, value)
    if isinstance(value, (int, float, Decimal)):
        is_nan = value != value
        return (1, is_nan, 0 if is_nan else value)
    return (5, str(value))


def show_payload(payload: Iterable[Any]) -> str:
    """A payload for people: `(1, 'a')`, and a single column without the comma."""
    return "(" + ", ".join(repr(value) for value in payload) + ")"


def _thaw(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        fields = [kind.field(position) for position in range(kind.num_fields)]
        return {field.name: _thaw(part, field.type) for field, part in zip(fields, value)}
    if pa.types.is_map(kind):
        return [(_thaw(key, kind.key_type), _thaw(item, kind.item_type)) for key, item in value]
    if pa.types.is_nested(kind):
        return [_thaw(part, kind.value_type) for part in value]
    return value
