"""Put the bounds of windows beside the columns of rows."""

from __future__ import annotations

import pyarrow as pa

from anabranch.algebra.window_columns import Columns
from anabranch.model.time import TimeArray


def with_bounds(
    payload: pa.RecordBatch, columns: Columns, kind: pa.DataType, start: TimeArray, end: TimeArray
) -> pa.RecordBatch:
    """The payload with two more columns; it may lack columns that nobody reads."""
    bounds = [pa.array(times).view(kind) for times in (start, end)]
    fields = [*payload.schema, *(pa.field(name, kind) for name in columns)]
    return pa.RecordBatch.from_arrays([*payload.columns, *bounds], schema=pa.schema(fields))
