"""Whether events that a join holds have the same payload."""

from __future__ import annotations

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


def same_events(rows: RowsAt, others: RowsAt, row: Ints) -> Mask:
    """Marks the `others` whose payload is that of one of the rows, for each the one at `row`.

    True is certain. Values without an order, NULL and NaN are left to hashes, as they are rare.
    """
    same = np.ones(len(others), np.bool_)
    for name in HASHES if are_hashed(rows) and are_hashed(others) else _payload_names(rows):
        one, other = rows.values(name), others.values(name)
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
            same &= taken(one, row) == other
        elif isinstance(other, pa.Array) and _is_comparable(other.type):
            equal = pc.equal(one.take(pa.array(row)), other).fill_null(False)
            same &= equal.to_numpy(zero_copy_only=False)
        else:
            same[:] = False
    return same


def _payload_names(rows: RowsAt) -> list[str]:
    return [name for name in rows.names if name.startswith("key")]


def are_hashed(rows: RowsAt) -> bool:
    """Whether all parts have hashes: what was stored by an earlier version has them alone."""
    return all(ROW in part.schema.names for part in rows.parts)


def _is_comparable(kind: pa.DataType) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    is_fixed = pa.types.is_boolean(kind) or pa.types.is_temporal(kind)
    return bool(is_text or is_binary or is_fixed)
