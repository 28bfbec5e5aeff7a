"""The events that are not yet frozen, as a multiset of (key, start, end, values) with counts.

A move of an end is stored as two rows: the event with the old end -1 times, the one with the new
end +1 times. So a run never has to look into older runs: the multiset is the sum of all runs, and
rows whose counts add up to 0 vanish when runs are merged or read.

Example: insert [5, 9), later its end moves to 12: runs {(5, 9): 1} and {(5, 9): -1, (5, 12): 1};
read together, or merged, they are {(5, 12): 1}.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.extremes import Codec
from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    is_first,
    order_by_id_and_time,
    order_by_number_and_time,
)
from anabranch.kernels.contract.column_names import END, ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace.runs import Merge, Slices, take_ranges, with_times
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import no_rows
from anabranch.model.time import Time


def events_schema(values: Sequence[tuple[str, pa.DataType]]) -> pa.Schema:
    """Columns of a run: key, start, end, how many, and values."""
    fields = [(ID, pa.uint64()), (TIME, pa.int64()), (END, pa.int64()), (COUNT, pa.int64())]
    return pa.schema([*fields, *values])


def event_rows(
    ids: Ids,
    start: Ints,
    end: Ints,
    new_end: Ints,
    values: Sequence[tuple[str, pa.Array]],
) -> pa.RecordBatch:
    """A sorted run: a move takes the event with the old end away, adds the one with the new end."""
    gone, come = end > start, new_end > start
    rows = np.concatenate([np.flatnonzero(gone), np.flatnonzero(come)])
    ends = np.concatenate([end[gone], new_end[come]])
    counts = np.ones(len(rows), np.int64)
    counts[: int(gone.sum())] = -1
    order = order_by_id_and_time(ids[rows], start[rows])
    rows = rows[order]
    arrays = [
        pa.array(ids[rows]),
        pa.array(start[rows]),
        pa.array(ends[order]),
        pa.array(counts[order]),
        *(value.take(pa.array(rows)) for _, value in values),
    ]
    schema = events_schema([(name, value.type) for name, value in values])
    return with_times(pa.RecordBatch.from_arrays(arrays, schema=schema), ends[order])


def events_merger(stable: Time, compared: Sequence[str]) -> Merge:
    """Merge runs: add up counts, drop what is netted out or ended before the stable point.

    Rows are the same event when key, start, end and the `compared` columns agree.
    """

    def merge(runs: Sequence[SortedRun], whole: bool) -> pa.RecordBatch:
        del whole
        rows = pa.concat_batches([run.rows for run in runs])
        alive = np.flatnonzero(rows.column(END).to_numpy() >= stable)
        rows = rows.take(pa.array(alive))
        first_rows, counts = add_up(rows, compared, rows.column(ID).to_numpy())
        rows = rows.take(pa.array(first_rows))
        rows = rows.set_column(3, rows.schema.field(COUNT), pa.array(counts))
        return with_times(rows, rows.column(END).to_numpy())

    return merge


def add_up(
    rows: pa.RecordBatch, compared: Sequence[str], owner: np.ndarray, floor: Ints | None = None
) -> tuple[Ints, Ints]:
    """The position of one row per owner and event, and the sum of its counts, unless 0.

    Where `floor` is given, starts before it do not tell events apart.
    """
    if not rows.num_rows:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    times, counts = rows.column(TIME).to_numpy(), rows.column(COUNT).to_numpy()
    if floor is not None:
        times = np.maximum(times, floor)
    by_time = order_by_id_and_time if owner.dtype == np.uint64 else order_by_number_and_time
    order = by_time(owner, times)
    first = is_first(owner[order], times[order])
    tied = ~first
    tied[:-1] |= ~first[1:]
    ties = np.flatnonzero(tied)
    if len(ties):
        # Few events of a key begin at one instant: only those are compared as a whole.
        tied_rows = order[ties]
        where = pa.array(tied_rows)
        keys = [_comparable(rows.column(name).take(where)) for name in compared]
        keys += [rows.column(END).to_numpy()[tied_rows], times[tied_rows], owner[tied_rows]]
        again = np.lexsort(keys)
        order[ties] = tied_rows[again]
        first[ties] = is_first(*(key[again] for key in keys))
    counts = np.add.reduceat(counts[order], np.flatnonzero(first))
    there = counts != 0
    return order[first][there], counts[there]


def added_up(
    rows: pa.RecordBatch, compared: Sequence[str], owner: np.ndarray, low: Ints
) -> tuple[Ints, Ints]:
    """As `add_up`, of the events that hold somewhere from `low` on.

    An event that came late was let in from a stable point on, and begins there. If it is withdrawn,
    whoever does so knows its true start. So where an event is missing that was withdrawn, starts
    before `low` are taken for one. Example: {(13, 20): 1} and {(12, 20): -1}, from 15 on nothing.
    """
    first_rows, counts = add_up(rows, compared, owner)
    if (counts < 0).any():
        return add_up(rows, compared, owner, low)
    return first_rows, counts


def _comparable(values: pa.Array) -> np.ndarray:
    """Numbers that are equal where values are."""
    if values.type == pa.uint64():
        return np.asarray(values.to_numpy())
    return Codec.of(values.type, False, [values]).encode(values)


def events_over(
    runs: Sequence[SortedRun],
    schema: pa.Schema,
    compared: Sequence[str],
    ids: Ids,
    low: Ints,
    high: Ints,
) -> tuple[pa.RecordBatch, Ints]:
    """Events alive somewhere in the ranges [low, high) of their keys, and the range of each.

    An event is there once, with how many of it there are.
    """
    parts, owners = [no_rows(schema)], [np.empty(0, np.int64)]
    for run in runs:
        slices = Slices(run, ids)
        rows, owner = take_ranges(run, slices.low, slices.at_or_after(high))
        keep = np.flatnonzero(rows.column(END).to_numpy() > low[owner])
        parts.append(rows.take(pa.array(keep)))
        owners.append(owner[keep])
    rows, owner = pa.concat_batches(parts), np.concatenate(owners)
    first_rows, counts = added_up(rows, compared, owner, low[owner])
    rows = rows.take(pa.array(first_rows))
    return rows.set_column(3, rows.schema.field(COUNT), pa.array(counts)), owner[first_rows]
