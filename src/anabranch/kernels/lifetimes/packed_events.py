"""Moves in the form in which they go through an exchange, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.kernels.contract.kernel import ID
from anabranch.kernels.lifetimes.final import FinalKernel
from anabranch.kernels.trace.event_trace import END, event_rows
from anabranch.kernels.trace.timeline import CHECK
from anabranch.model.batch import EventBatch
from anabranch.model.time import Time

_TIMES = ("__start", END, "__new_end")


def pack(batch: EventBatch) -> pa.RecordBatch:
    """The moves with both hashes of their payload."""
    return FinalKernel(batch.schema).prepare(batch)


def packed_schema(payload: pa.Schema) -> pa.Schema:
    """The columns of such moves."""
    return FinalKernel(payload).prepared_schema()


def unpack(rows: pa.RecordBatch, schema: pa.Schema, stable: Time) -> EventBatch:
    """The moves as they were."""
    start, end, new_end = (rows.column(name).to_numpy() for name in _TIMES)
    return EventBatch(payload_of(rows, schema), start, end, new_end, stable)


def payload_of(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The user's columns."""
    columns = [rows.column(name) for name in payload_names(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def payload_names(schema: pa.Schema) -> list[str]:
    """What the user's columns are called on the way."""
    return [f"key{place}" for place in range(len(schema))]


def run_of(rows: pa.RecordBatch, moves: EventBatch) -> pa.RecordBatch:
    """A run of a multiset of events: what the moves take away and what they add."""
    names = [CHECK, *payload_names(moves.schema)]
    return event_rows(
        rows.column(ID).to_numpy(),
        moves.start,
        moves.end,
        moves.new_end,
        [(name, rows.column(name)) for name in names],
    )


def concat_where(parts: Sequence[tuple[pa.RecordBatch, np.ndarray]]) -> pa.RecordBatch:
    """The rows of several batches of one schema for which their masks are true."""
    return pa.concat_batches([rows.take(pa.array(np.flatnonzero(keep))) for rows, keep in parts])
