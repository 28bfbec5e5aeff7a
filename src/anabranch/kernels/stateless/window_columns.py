"""Put the bounds of windows beside the columns of rows."""

from __future__ import annotations

import pyarrow as pa

from anabranch.algebra.window_columns import Columns
from anabranch.model.clock import Clock
from anabranch.model.time import TimeArray


def with_bounds(
    payload: pa.RecordBatch, columns: Columns, clock: Clock, start: TimeArray, end: TimeArray
) -> pa.RecordBatch:
    """The payload with two more columns; it may lack columns that nobody reads."""
    bounds = [clock.column(times) for times in (start, end)]
    fields = [*payload.schema, *(pa.field(name, clock.type) for name in columns)]
    return pa.RecordBatch.from_arrays([*payload.columns, *bounds], schema=pa.schema(fields))
