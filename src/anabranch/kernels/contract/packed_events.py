"""Moves as the rows of one record batch, and back: the only codec between the two.

A packed batch has the columns that its reader wants in front (an id, a second hash, the number of a
copy; none at all on the way to the driver), then the three times, then the payload as `key0`,
`key1` and so on. The user's names stay behind: the reader knows them from its plan, and no name can
meet another. Nothing is copied but what the caller computes.

Example: `price` 7 and 9, inserted at 10 for 5 chronons, packed with ids:

    __id  __start  __end  __new_end  key0
    3     10       10     15         7
    8     10       10     15         9
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.kernels.contract.column_names import TIMES
from anabranch.kernels.contract.prepared import assemble, hashes, keyed, numbers
from anabranch.model.batch import EventBatch
from anabranch.model.time import Time


def packed_schema(
    payload: pa.Schema, *, hashed: Sequence[str] = (), counted: Sequence[str] = ()
) -> pa.Schema:
    """The columns of packed moves: hashes (uint64) and numbers (int64) first, as they are named."""
    own = [*hashes(*hashed), *numbers(*counted, *TIMES)]
    return pa.schema([*own, *keyed(payload.types)])


def pack_events(
    batch: EventBatch,
    *,
    hashed: Mapping[str, pa.Array | np.ndarray] | None = None,
    counted: Mapping[str, pa.Array | np.ndarray] | None = None,
) -> pa.RecordBatch:
    """The moves with these columns in front."""
    hashed, counted = hashed or {}, counted or {}
    return assemble(
        packed_schema(batch.schema, hashed=[*hashed], counted=[*counted]),
        {
            **hashed,
            **counted,
            **dict(zip(TIMES, (batch.start, batch.end, batch.new_end), strict=True)),
            **dict(zip(payload_names(batch.schema), batch.payload.columns, strict=True)),
        },
    )


def unpack_events(rows: pa.RecordBatch, schema: pa.Schema, stable: Time) -> EventBatch:
    """The moves as they were, with the user's columns under their own names."""
    start, end, new_end = (rows.column(name).to_numpy() for name in TIMES)
    return EventBatch(payload_of(rows, schema), start, end, new_end, stable)


def payload_of(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The user's columns of packed rows."""
    columns = [rows.column(name) for name in payload_names(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def payload_names(schema: pa.Schema) -> list[str]:
    """What the user's columns are called while they are packed."""
    return [f"key{index}" for index in range(len(schema))]
