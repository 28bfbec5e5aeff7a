"""Which rows belong to an answer, over time: what comes and goes at which instant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns import Ids, Ints, is_first, is_last
from anabranch.kernels.kernel import ID, Run
from anabranch.kernels.runs import TIME, Merge, take_ranges, with_times
from anabranch.kernels.timeline_rows import COUNT
from anabranch.model.batch import no_rows
from anabranch.model.time import BEGINNING, FOREVER, Time

ROW: Final = "__row"
ROW_CHECK: Final = "__row_check"
"""Two hashes of a payload: rows that agree in both are copies."""


def membership_rows(ids: Ids, rows: pa.RecordBatch, time: Ints, change: Ints) -> pa.RecordBatch:
    """A run: from an instant on, so many more copies of a payload belong to the answer of a key.

    `rows` has the hashes, then the payload.
    """
    names, fields = rows.schema.names, list(rows.schema)
    keys = [ids, *(rows.column(name).to_numpy() for name in (ROW, ROW_CHECK)), time]
    order = np.lexsort(keys[::-1])
    first = is_first(*(key[order] for key in keys))
    sums = np.add.reduceat(change[order], np.flatnonzero(first)) if len(order) else change
    # Nothing happens at the end of time.
    some = np.flatnonzero((sums != 0) & (time[order[first]] < FOREVER))
    kept = order[first][some]
    schema = pa.schema(
        [
            pa.field(ID, pa.uint64()),
            pa.field(TIME, pa.int64()),
            pa.field(COUNT, pa.int64()),
            *fields,
        ]
    )
    arrays = [pa.array(ids[kept]), pa.array(time[kept]), pa.array(sums[some])]
    arrays += [rows.column(name).take(pa.array(kept)) for name in names]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return with_times(batch, _needed_until(batch))


def _needed_until(rows: pa.RecordBatch) -> Ints:
    """When all copies of each row's payload are gone, as far as these rows tell."""
    if not rows.num_rows:
        return np.empty(0, np.int64)
    times, change = rows.column(TIME).to_numpy(), rows.column(COUNT).to_numpy()
    keys = [rows.column(name).to_numpy() for name in (ID, ROW, ROW_CHECK)]
    first, last = is_first(*keys), is_last(*keys)
    left = np.add.reduceat(change, np.flatnonzero(first))
    until = np.where(left == 0, times[last], np.int64(FOREVER))
    return np.asarray(until[np.cumsum(first) - 1])


def memberships_merger(stable: Time) -> Merge:
    """Merge runs; of what happened before the stable point only the outcome is kept."""

    def merge(runs: Sequence[Run], whole: bool) -> pa.RecordBatch:
        del whole
        rows = pa.concat_batches([run.rows for run in runs])
        ids, time, change = (rows.column(name).to_numpy() for name in (ID, TIME, COUNT))
        time = np.where(time < stable, np.int64(BEGINNING), time)
        return membership_rows(ids, rows.select(rows.schema.names[3:]), time, change)

    return merge


def memberships_of(runs: Sequence[Run], schema: pa.Schema, ids: Ids) -> tuple[pa.RecordBatch, Ints]:
    """All rows of some keys, and whose each is."""
    fields = [(ID, pa.uint64()), (TIME, pa.int64()), (COUNT, pa.int64())]
    parts = [no_rows(pa.schema([*fields, *schema]))]
    owners = [np.empty(0, np.int64)]
    for run in runs:
        held = run.rows.column(ID).to_numpy()
        low, high = (np.searchsorted(held, ids, side=side) for side in ("left", "right"))
        rows, owner = take_ranges(run, low, high)
        parts.append(rows)
        owners.append(owner)
    return pa.concat_batches(parts), np.concatenate(owners)
