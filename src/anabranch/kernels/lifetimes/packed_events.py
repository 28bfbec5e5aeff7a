"""Moves with both hashes of their payload, and runs of a multiset of events made of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.kernels.contract.column_names import CHECK, ID
from anabranch.kernels.contract.packed_events import payload_names
from anabranch.kernels.lifetimes.final import FinalKernel
from anabranch.kernels.trace.event_trace import event_rows
from anabranch.model.batch import EventBatch


def pack(batch: EventBatch) -> pa.RecordBatch:
    """The moves with both hashes of their payload."""
    return FinalKernel(batch.schema).prepare(batch)


def packed_schema(payload: pa.Schema) -> pa.Schema:
    """The columns of such moves."""
    return FinalKernel(payload).prepared_schema()


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
