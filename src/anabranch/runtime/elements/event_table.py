"""A batch as changes of a table of events: payload, from when to when it holds, how many copies."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.errors import PlanError
from anabranch.model.batch import EventBatch, take_rows
from anabranch.model.clock import Clock
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.time import FOREVER, TimeArray

EVENT: Final = "event"
FROM: Final = "valid_from"
TO: Final = "valid_to"
COPIES: Final = "copies"


def event_schema(payload: pa.Schema, *, clock: Clock) -> pa.Schema:
    """The columns of a table of events.

    `event` identifies a payload with its period; `valid_to` is NULL where there is no end; equal
    events share a row.

    Raises:
        PlanError: A payload column has one of the names that are taken.
    """
    taken = [name for name in (EVENT, FROM, TO, COPIES) if name in payload.names]
    if taken:
        raise PlanError(
            f"a column of the result is called '{taken[0]}'",
            where=f"columns are: {', '.join(payload.names)}",
            hint=f"{EVENT}, {FROM}, {TO} and {COPIES} are reserved in tables of events; select it "
            "under another name",
        )
    time = clock.type
    return pa.schema(
        [
            *payload,
            pa.field(FROM, time),
            pa.field(TO, time),
            pa.field(COPIES, pa.int64()),
            pa.field(EVENT, pa.int64()),
        ]
    )


def event_changes(batch: EventBatch, *, clock: Clock) -> pa.RecordBatch:
    """By how much the number of copies of each event changes; none is left that does not."""
    schema = event_schema(batch.schema, clock=clock)
    gone, come = batch.end > batch.start, batch.new_end > batch.start
    rows = np.r_[np.flatnonzero(gone), np.flatnonzero(come)]
    start = batch.start[rows]
    end = np.r_[batch.end[gone], batch.new_end[come]]
    copies = np.r_[np.full(gone.sum(), -1), np.full(come.sum(), 1)].astype(np.int64)
    payload = take_rows(batch.payload, rows)
    columns = [*payload.columns, pa.array(start), pa.array(end)]
    event = stable_hash(columns, len(rows)).view(np.int64)
    found, first, event_index = np.unique(event, return_index=True, return_inverse=True)
    total = np.bincount(event_index, copies, minlength=len(found)).astype(np.int64)
    kept = total != 0
    chosen = first[kept]
    return pa.RecordBatch.from_arrays(
        [
            *take_rows(payload, chosen).columns,
            _times(start[chosen], clock),
            _times(end[chosen], clock),
            pa.array(total[kept]),
            pa.array(found[kept]),
        ],
        schema=schema,
    )


def _times(times: TimeArray, clock: Clock) -> pa.Array:
    return clock.column(times, times == FOREVER)
