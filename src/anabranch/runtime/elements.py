"""Batches as rows of an element table: kind, start, end, new_end, and the payload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.errors import PlanError
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER, Time

ELEMENT_FIELDS: Final = (
    pa.field("kind", pa.string()),
    pa.field("start", pa.int64()),
    pa.field("end", pa.int64()),
    pa.field("new_end", pa.int64()),
)


def element_schema(payload: pa.Schema) -> pa.Schema:
    """The columns of an element table.

    Raises:
        PlanError: A payload column has one of the names that are taken.
    """
    taken = [field.name for field in ELEMENT_FIELDS if field.name in payload.names]
    if taken:
        raise PlanError(
            f"a column of the result is called '{taken[0]}'",
            where=f"columns are: {', '.join(payload.names)}",
            hint="kind, start, end and new_end are taken in tables of elements; select it under "
            "another name",
        )
    return pa.schema([*ELEMENT_FIELDS, *payload])


def element_rows(batch: EventBatch, *, after: Time) -> Iterator[pa.RecordBatch]:
    """The rows of a batch as inserts and adjusts; forever is NULL.

    Its stable point follows, if it says more than the one before, `after`.
    """
    schema = element_schema(batch.schema)
    if len(batch):
        adjusts = batch.end != batch.start
        end = np.where(adjusts, batch.end, batch.new_end)
        times = [
            pa.array(batch.start),
            pa.array(end, mask=end == FOREVER),
            pa.array(batch.new_end, mask=~adjusts | (batch.new_end == FOREVER)),
        ]
        kinds = pa.array(np.where(adjusts, "adjust", "insert"), pa.string())
        columns = [kinds, *times, *batch.payload.columns]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
    if batch.stable > after:
        yield pa.RecordBatch.from_pylist([{"kind": "stable", "start": int(batch.stable)}], schema)


def element_table(batches: Iterable[EventBatch], payload: pa.Schema) -> pa.Table:
    """Batches one after the other, as one table."""
    rows: list[pa.RecordBatch] = []
    after = BEGINNING
    for batch in batches:
        rows += element_rows(batch, after=after)
        after = Time(max(after, batch.stable))
    return pa.Table.from_batches(rows, element_schema(payload))
