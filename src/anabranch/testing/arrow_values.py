"""Arrow columns of any type to draw, with the values that are easy to get wrong."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

_NUMBERS = (pa.int8(), pa.int32(), pa.int64(), pa.uint16(), pa.uint64(), pa.float32(), pa.float64())
_TIMES = (
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", tz="UTC"),
    pa.timestamp("s"),
    pa.time64("us"),
    pa.duration("us"),
)
_OTHERS = (
    pa.bool_(),
    pa.string(),
    pa.binary(),
    pa.binary(3),
    pa.decimal128(20, 3),
    pa.decimal128(38, 0),
    pa.decimal256(50, 5),
)
_FLOATS = (0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 1.5)


def arrow_types(*, nested: bool = True) -> st.SearchStrategy[pa.DataType]:
    """A type that a payload column may have."""
    flat = st.sampled_from((*_NUMBERS, *_TIMES, *_OTHERS))
    if not nested:
        return flat

    def wrap(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        structs = st.lists(inner, max_size=3).map(
            lambda kinds: pa.struct([(f"f{i}", kind) for i, kind in enumerate(kinds)])
        )
        maps = inner.map(lambda kind: pa.map_(pa.string(), kind))
        return inner.map(pa.list_) | structs | maps

    return st.recursive(flat, wrap, max_leaves=3)


def arrow_values(kind: pa.DataType, *, nulls: bool = True) -> st.SearchStrategy[Any]:
    """A Python value that `pa.array` takes for this type; few different ones, so that they meet."""
    value = _present(kind)
    return st.none() | value if nulls else value


def arrow_schemas(*, max_columns: int = 3, nested: bool = True) -> st.SearchStrategy[pa.Schema]:
    """A schema of columns `c0`, `c1`, ..."""
    return st.lists(arrow_types(nested=nested), min_size=1, max_size=max_columns).map(
        lambda kinds: pa.schema([(f"c{i}", kind) for i, kind in enumerate(kinds)])
    )


def arrow_rows(schema: pa.Schema) -> st.SearchStrategy[dict[str, Any]]:
    """A payload of the schema."""
    return st.fixed_dictionaries({field.name: arrow_values(field.type) for field in schema})


def _present(kind: pa.DataType) -> st.SearchStrategy[Any]:
    types = pa.types
    if types.is_null(kind):
        return st.none()
    if types.is_struct(kind):
        return st.fixed_dictionaries({field.name: arrow_values(field.type) for field in kind})
    if types.is_map(kind):
        keys = st.sampled_from(["k", "l", ""])
        return st.lists(st.tuples(keys, arrow_values(kind.item_type)), max_size=2)
    if types.is_list(kind):
        return st.lists(arrow_values(kind.value_type), max_size=3)
    if types.is_boolean(kind):
        return st.booleans()
    if types.is_integer(kind):
        bits, signed = kind.bit_width, types.is_signed_integer(kind)
        low = -(2 ** (bits - 1)) if signed else 0
        high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
        return st.sampled_from([0, 1, low, high, high - 1])
    if types.is_float32(kind):
        return st.sampled_from([value if value != 0.1 else 0.25 for value in _FLOATS])
    if types.is_floating(kind):
        return st.sampled_from(_FLOATS)
    if types.is_decimal(kind):
        unit = Decimal(1).scaleb(-kind.scale)
        return st.sampled_from([Decimal(0) * unit, unit, -unit, 12345 * unit])
    if types.is_fixed_size_binary(kind):
        return st.sampled_from([b"abc", b"\0\0\0", b"\xff\xfe\xfd"])
    if types.is_binary(kind):
        return st.sampled_from([b"", b"\0", b"\0\0", b"\xff\xfe", b"eightbyt"])
    if types.is_string(kind):
        return st.sampled_from(_TEXTS)
    if types.is_date(kind) or types.is_timestamp(kind) or types.is_duration(kind):
        return st.sampled_from([0, 1, -1, 20_000]).map(
            lambda n: pa.scalar(n, _raw(kind)).cast(kind).as_py()
        )
    assert types.is_time(kind), kind
    return st.sampled_from([0, 1, 86_399_999_999]).map(
        lambda n: pa.scalar(n, pa.int64()).cast(kind).as_py()
    )


def _raw(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date32(kind) else pa.int64()


_TEXTS = (
    "",
    "a",
    "b",
    "eightbyt",
    "eightbyt\0",
    'say "no" \\ or\nnot',
    "Größe €",
    "forever",
    "2026-11-15 10:00:00",
    "seventeen letters",
    "a text that is clearly longer than four words",
    "a text that is clearly longer than four worlds",
)
