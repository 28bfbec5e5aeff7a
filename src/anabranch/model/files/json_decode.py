"""Columns out of JSON: what Arrow's reader can do, and the rest value by value."""

from __future__ import annotations

import base64
import binascii
import json
import math
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa

from anabranch.model.iso_text import date_of, nanoseconds_of, time_of

_NANOSECONDS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


class MisfitError(Exception):
    """A JSON value does not fit its column; the path leads to it."""

    def __init__(self, path: str, expected: str, found: Any) -> None:
        super().__init__(path, expected, found)
        self.path = path
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return f"column '{self.path}' expects {self.expected}, found {show_json(self.found)}"


def show_json(value: Any, width: int = 60) -> str:
    """A JSON value for people, shortened."""
    text = json.dumps(value, ensure_ascii=False, default=_plain_number)
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= width else text[: width - 3] + "..."


def _plain_number(value: object) -> float:
    assert isinstance(value, Decimal)
    return float(value)


def wire_type(kind: pa.DataType) -> pa.DataType:
    """The type as which Arrow's JSON reader can read the column; `from_wire` does the rest."""
    types = pa.types
    if types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.struct([pa.field(field.name, wire_type(field.type)) for field in fields])
    if types.is_map(kind):
        entry = [("key", wire_type(kind.key_type)), ("value", wire_type(kind.item_type))]
        return pa.list_(pa.struct(entry))
    if _is_list(kind):
        return pa.list_(wire_type(kind.value_type))
    if types.is_dictionary(kind):
        return wire_type(kind.value_type)
    if types.is_date(kind) or types.is_time(kind) or _is_binary(kind) or _is_string(kind):
        return pa.string()
    if types.is_duration(kind):
        return pa.int64()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_decimal(kind) and kind.bit_width < 128:
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def from_wire(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column as its own type.

    Raises:
        pa.ArrowInvalid: A value does not fit.
        MisfitError: Likewise, where the path is known.
    """
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        children = [from_wire(column.field(i), field.type) for i, field in enumerate(fields)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())
    if pa.types.is_map(kind):
        offsets, entries = pa.array(column.offsets.to_numpy()), column.values
        keys, items = (
            from_wire(entries.field(0), kind.key_type),
            from_wire(entries.field(1), kind.item_type),
        )
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=column.is_null())
    if _is_list(kind):
        offsets, values = pa.array(column.offsets.to_numpy()), column.values
        values = from_wire(values, kind.value_type)
        lists = pa.ListArray.from_arrays(offsets, values, mask=column.is_null())
        return lists.cast(kind)
    if pa.types.is_time(kind) or _is_binary(kind):
        return pa.array([decode_value(text, kind, "") for text in column.to_pylist()], kind)
    return column.cast(kind)


def decode_value(value: Any, kind: pa.DataType, path: str) -> Any:
    """A parsed JSON value as a Python value that `pa.array` takes for the type.

    Raises:
        MisfitError: It does not fit.
    """
    types = pa.types
    if value is None:
        return None
    if types.is_dictionary(kind):
        return decode_value(value, kind.value_type, path)
    if types.is_struct(kind):
        return _decode_struct(value, kind, path)
    if types.is_map(kind):
        return _decode_map(value, kind, path)
    if _is_list(kind):
        if not isinstance(value, list):
            raise MisfitError(path, "a list", value)
        return [decode_value(v, kind.value_type, f"{path}[{i}]") for i, v in enumerate(value)]
    if types.is_null(kind):
        raise MisfitError(path, "null", value)
    if types.is_boolean(kind):
        if not isinstance(value, bool):
            raise MisfitError(path, "true or false", value)
        return value
    if types.is_integer(kind) or types.is_duration(kind):
        return _decode_integer(value, kind, path)
    if types.is_floating(kind):
        return _decode_float(value, kind, path)
    if types.is_decimal(kind):
        return _decode_decimal(value, kind, path)
    if not isinstance(value, str):
        text = "text" if _is_string(kind) else _text_form(kind)
        raise MisfitError(path, text, value)
    return _decode_text(value, kind, path)


_TEXT_FORMS = {
    "string": "text of Unicode characters",
    "large_string": "text of Unicode characters",
    "timestamp": "an ISO timestamp in quotes",
    "date32": "an ISO date in quotes",
    "date64": "an ISO date in quotes",
    "time32": "an ISO time in quotes",
    "time64": "an ISO time in quotes",
    "binary": "base64 text",
    "fixed_size_binary": "base64 text",
}


def _text_form(kind: pa.DataType) -> str:
    return _TEXT_FORMS.get(str(kind).split("[")[0], f"a value of type {kind}")


def _decode_struct(value: Any, kind: pa.DataType, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MisfitError(path, "an object", value)
    fields = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)}
    prefix = f"{path}." if path else ""
    unknown = [name for name in value if name not in fields]
    if unknown:
        raise MisfitError(path, f"an object with {', '.join(fields) or 'no fields'}", value)
    return {name: decode_value(value.get(name), t, prefix + name) for name, t in fields.items()}


def _decode_map(value: Any, kind: pa.DataType, path: str) -> list[tuple[Any, Any]]:
    entries = value.items() if isinstance(value, dict) else value
    if isinstance(value, list) and all(
        isinstance(entry, dict)
        and entry.keys() <= {"key", "value"}
        and entry.get("key") is not None
        for entry in value
    ):
        entries = [(entry["key"], entry.get("value")) for entry in value]
    elif not isinstance(value, dict):
        raise MisfitError(path, 'a list of {"key": ..., "value": ...}', value)
    return [
        (
            decode_value(k, kind.key_type, f"{path}.key"),
            decode_value(v, kind.item_type, f"{path}.{k}"),
        )
        for k, v in entries
    ]


def _decode_integer(value: Any, kind: pa.DataType, path: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        raise MisfitError(path, "a whole number", value)
    unsigned = pa.types.is_unsigned_integer(kind)
    limits = np.iinfo(np.dtype(f"{'u' if unsigned else 'i'}{kind.bit_width // 8}"))
    if not limits.min <= value <= limits.max:
        raise MisfitError(path, f"a whole number from {limits.min} to {limits.max}", value)
    if pa.types.is_duration(kind):
        return pa.scalar(value, pa.int64()).cast(kind).as_py()
    return value


def _decode_float(value: Any, kind: pa.DataType, path: str) -> float:
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise MisfitError(path, "a number", value)
    number = float(value)
    if pa.types.is_float16(kind):
        # Arrow takes half floats from numpy only.
        return float(np.float16(number)) if math.isfinite(number) else number
    return number


def _decode_decimal(value: Any, kind: pa.DataType, path: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise MisfitError(path, "a decimal number", value)
    try:
        number = value if isinstance(value, Decimal) else Decimal(str(value))
        pa.scalar(number, kind)
    except (InvalidOperation, pa.ArrowInvalid):
        digits = f"{kind.precision - kind.scale} digits before and {kind.scale} after the point"
        raise MisfitError(path, f"a decimal number of at most {digits}", value) from None
    return number


def _decode_text(value: str, kind: pa.DataType, path: str) -> Any:
    types = pa.types
    expected = _text_form(kind)
    try:
        if _is_string(kind):
            value.encode()
            return value
        if _is_binary(kind):
            data = base64.b64decode(value, validate=True)
            if types.is_fixed_size_binary(kind) and len(data) != kind.byte_width:
                expected = f"base64 text of {kind.byte_width} bytes"
                raise ValueError
            return data
        if types.is_timestamp(kind):
            exact, rest = divmod(nanoseconds_of(value), _NANOSECONDS[kind.unit])
            if rest:
                raise ValueError
            return exact
        if types.is_date(kind):
            return date_of(value)
        if types.is_time(kind):
            return time_of(value)
    except (ValueError, pa.ArrowInvalid, binascii.Error, UnicodeEncodeError):
        pass
    raise MisfitError(path, expected, value)


def has_decimal(kind: pa.DataType) -> bool:
    """Whether there is a decimal in a type, at any depth."""
    if pa.types.is_struct(kind):
        return any(has_decimal(kind.field(i).type) for i in range(kind.num_fields))
    if pa.types.is_map(kind):
        return has_decimal(kind.key_type) or has_decimal(kind.item_type)
    if pa.types.is_nested(kind):
        return has_decimal(kind.value_type)
    return bool(pa.types.is_decimal(kind))


def _is_list(kind: pa.DataType) -> bool:
    is_list: bool = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return is_list or bool(pa.types.is_fixed_size_list(kind))


def _is_binary(kind: pa.DataType) -> bool:
    is_binary: bool = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return is_binary or bool(pa.types.is_fixed_size_binary(kind))


def _is_string(kind: pa.DataType) -> bool:
    is_string: bool = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return is_string or bool(pa.types.is_string_view(kind))
