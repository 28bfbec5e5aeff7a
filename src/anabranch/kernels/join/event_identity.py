"""Whether events that a join holds have the same payload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.kernels.columns.grouped import Ids, Ints, Mask, taken
from anabranch.kernels.contract.column_names import JOIN_ROW_CHECK, ROW
from anabranch.kernels.trace.rows_at import RowsAt
from anabranch.model.numbers.hashing import stable_hashes

HASHES: Final = (ROW, JOIN_ROW_CHECK)
"""The hashes of a payload, where they travel with it."""


def payload_of(rows: RowsAt) -> list[pa.Array]:
    """The user's columns among those that travel."""
    return [rows.column(name) for name in _payload_names(rows)]


def event_hashes(rows: RowsAt) -> list[Ids]:
    """Two hashes of each payload; none where rows have no payload."""
    if are_hashed(rows):
        return [rows.numbers(name) for name in HASHES]
    payload = payload_of(rows)
    return [*stable_hashes(payload, len(rows), (0, 1))] if payload else []


_WIDTHS: Final = {
    pa.type_for_alias(name).id: width
    for width, names in {
        1: ("int8", "uint8"),
        2: ("int16", "uint16"),
        4: ("int32", "uint32", "float32", "date32"),
        8: ("int64", "uint64", "float64", "timestamp[us]", "duration[us]", "date64"),
    }.items()
    for name in names
}


def payload_addresses(parts: Sequence[pa.RecordBatch]) -> tuple[Ints, Ints] | None:
    """Where each column of each part begins in memory, and how many bytes a value has.

    None where payloads have other columns than numbers and times without nulls, or where parts are
    not alike.
    """
    names = parts[0].schema.names
    chosen = HASHES if ROW in names else [name for name in names if name.startswith("key")]
    indices = [names.index(name) for name in chosen]
    widths = [_WIDTHS.get(parts[0].column(index).type.id, 0) for index in indices]
    if not all(widths):
        return None
    addresses = []
    for part in parts:
        if part is not parts[0] and part.schema.names != names:
            return None
        for index, width in zip(indices, widths, strict=True):
            column = part.column(index)
            if column.null_count or _WIDTHS.get(column.type.id) != width:
                return None
            values = column.buffers()[1]
            addresses.append(values.address + column.offset * width if values is not None else 0)
    return np.array(addresses, np.int64), np.array(widths, np.int64)


def same_events(rows: RowsAt, one: Ints, other: Ints) -> Mask:
    """Marks the rows in `one` that have the payload of those beside them in `other`.

    True is certain. Values without an order, NULL and NaN are left to hashes, as they are rare.
    """
    same = np.ones(len(one), np.bool_)
    parts, (first, second) = rows.parts, (_located(rows, some) for some in (one, other))
    for name in HASHES if are_hashed(rows) else _payload_names(rows):
        columns = [part.column(name) for part in parts]
        if _is_number(columns[0].type) and not any(column.null_count for column in columns):
            values = [column.to_numpy() for column in columns]
            same &= _gathered(values, first) == _gathered(values, second)
        elif _is_number(columns[0].type) or _is_comparable(columns[0].type):
            # Few rows come here, so they are brought together one part after the other.
            equal = pc.equal(_brought(columns, first), _brought(columns, second))
            same &= equal.fill_null(False).to_numpy(zero_copy_only=False)
        else:
            same[:] = False
    return same


Located = Sequence[tuple[int, Ints | None, Ints]]
"""Of some rows the part, which of them are in it (None: all), and where."""


def _located(rows: RowsAt, some: Ints) -> Located:
    if len(rows.parts) == 1:
        return [(0, None, taken(rows.positions[0], some))]
    stops = np.cumsum([len(each) for each in rows.positions])
    part = stops.searchsorted(some, side="right")
    found: list[tuple[int, Ints | None, Ints]] = []
    for number in np.flatnonzero(np.bincount(part)).tolist():
        chosen = np.flatnonzero(part == number)
        offset = int(stops[number - 1]) if number else 0
        position = taken(rows.positions[number], some[chosen] - offset)
        found.append((number, None if len(chosen) == len(some) else chosen, position))
    return found


def _gathered(values: Sequence[np.ndarray], located: Located) -> np.ndarray:
    result = np.empty(0)
    for part, chosen, position in located:
        if chosen is None:
            return taken(values[part], position)
        if not len(result):
            result = np.empty(sum(len(each) for _, _, each in located), values[part].dtype)
        result[chosen] = taken(values[part], position)
    return result


def _brought(values: Sequence[pa.Array], located: Located) -> pa.Array:
    several = pa.concat_arrays([values[part].take(pa.array(at)) for part, _, at in located])
    order = [chosen for _, chosen, _ in located if chosen is not None]
    return several.take(pa.array(np.argsort(np.concatenate(order)))) if order else several


def _payload_names(rows: RowsAt) -> list[str]:
    return [name for name in rows.names if name.startswith("key")]


def are_hashed(rows: RowsAt) -> bool:
    """Whether all parts have hashes: what was stored by an earlier version has them alone."""
    return all(ROW in part.schema.names for part in rows.parts)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_comparable(kind: pa.DataType) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    is_fixed = pa.types.is_boolean(kind) or pa.types.is_temporal(kind)
    return bool(is_text or is_binary or is_fixed)
