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

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.extremes import Codec
from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    Mask,
    is_first,
    merge_order,
    order_by_id_and_time,
    order_by_number_and_time,
    positions_of,
)
from anabranch.kernels.contract.column_names import END, ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace.runs import Merge, Slices, column, with_times
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import no_rows
from anabranch.model.time import BEGINNING, Time


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
    *,
    since: Time = BEGINNING,
    compared: Sequence[str] = (),
) -> pa.RecordBatch:
    """A sorted run: a move takes the event with the old end away, adds the one with the new end.

    What ends before `since` is left out, as a merge with that stable point leaves it out. Where
    two hashes are `compared`, a large run is also without what came and went in it.
    """
    gone, come = (end > start) & (end >= since), (new_end > start) & (new_end >= since)
    rows = np.concatenate([np.flatnonzero(gone), np.flatnonzero(come)])
    ends = np.concatenate([end[gone], new_end[come]])
    counts = np.ones(len(rows), np.int64)
    counts[: int(gone.sum())] = -1
    if len(compared) == 2 and gone.any() and columns.is_compiled(len(rows)):
        hashes = [value.to_numpy()[rows] for name, value in values if name in compared]
        first, counts = _by_hash(hashes, ids[rows], start[rows], ends, counts)
        there = first & (counts != 0)
        rows, ends, counts = rows[there], ends[there], counts[there]
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


def events_merger(stable: Time, compared: Sequence[str], *, any_order: bool = False) -> Merge:
    """Merge runs: add up counts, drop what is netted out or ended before the stable point.

    Rows are the same event when key, start, end and the `compared` columns agree. With `any_order`
    events of one key and start come in any order, which is quicker where there are many.
    """

    def merge(runs: Sequence[SortedRun], whole: bool) -> pa.RecordBatch:
        del whole
        rows = pa.concat_batches([run.rows for run in runs])
        ids, times = rows.column(ID).to_numpy(), rows.column(TIME).to_numpy()
        cuts = np.cumsum([len(run) for run in runs])[:-1]
        sorted_parts = zip(np.split(ids, cuts), np.split(times, cuts), strict=True)
        order = merge_order(list(sorted_parts))
        order = order[rows.column(END).to_numpy()[order] >= stable]
        first_rows, counts = add_up(rows, compared, ids, order=order, any_order=any_order)
        rows = rows.take(pa.array(first_rows))
        rows = rows.set_column(3, rows.schema.field(COUNT), pa.array(counts))
        return with_times(rows, rows.column(END).to_numpy())

    return merge


def add_up(
    rows: pa.RecordBatch,
    compared: Sequence[str],
    owner: np.ndarray,
    floor: Ints | None = None,
    order: Ints | None = None,
    any_order: bool = False,
) -> tuple[Ints, Ints]:
    """The position of one row per owner and event, and the sum of its counts, unless 0.

    Where `floor` is given, starts before it do not tell events apart. Positions come by owner and
    start (as in `order`, if that is known), then by end and values, unless in `any_order`.
    """
    if not rows.num_rows or (order is not None and not len(order)):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    times, counts = rows.column(TIME).to_numpy(), rows.column(COUNT).to_numpy()
    if floor is not None:
        times = np.maximum(times, floor)
    if order is None:
        by_time = order_by_id_and_time if owner.dtype == np.uint64 else order_by_number_and_time
        order = by_time(owner, times)
    first = is_first(owner[order], times[order])
    tied = ~first
    tied[:-1] |= ~first[1:]
    ties = np.flatnonzero(tied)
    counts = counts[order]
    if len(ties):
        # Few events of a key begin at one instant: only those are compared as a whole. In windows
        # on a grid all do: a table of hashes takes a fourth of the time of a sort by all keys.
        tied_rows = order[ties]
        where = pa.array(tied_rows)
        values = [_comparable(rows.column(name).take(where)) for name in compared]
        keys = (owner[tied_rows], times[tied_rows], rows.column(END).to_numpy()[tied_rows])
        if any_order and columns.is_compiled(len(ties)) and _are_hashes(values):
            first[ties], counts[ties] = _by_hash(values, *keys, counts[ties])
            there = first & (counts != 0)
            return order[there], counts[there]
        again = np.lexsort([*values, *keys[::-1]])
        order = order.copy()
        order[ties] = tied_rows[again]
        counts[ties] = counts[ties][again]
        first[ties] = is_first(*(key[again] for key in (*keys, *values)))
    counts = np.add.reduceat(counts, np.flatnonzero(first))
    there = counts != 0
    return order[first][there], counts[there]


def _are_hashes(values: Sequence[np.ndarray]) -> bool:
    return len(values) <= 2 and all(each.dtype == np.uint64 for each in values)


def _by_hash(
    values: Sequence[np.ndarray], owner: np.ndarray, times: Ints, ends: Ints, counts: Ints
) -> tuple[Mask, Ints]:
    """Which rows are the first ones of their events, and sums of counts, which these have."""
    same = owner.view(np.uint64)
    hash_, check = [*values, same, same][:2]
    first, sums = columns.native().add_up_events(same, hash_, check, times, ends, counts)
    return first == np.arange(len(first)), sums


def added_up(
    rows: pa.RecordBatch,
    compared: Sequence[str],
    owner: np.ndarray,
    low: Ints,
    *,
    any_order: bool = False,
) -> tuple[Ints, Ints]:
    """As `add_up`, of the events that hold somewhere from `low` on.

    An event that came late was let in from a stable point on, and begins there. If it is withdrawn,
    whoever does so knows its true start. So where an event is missing that was withdrawn, starts
    before `low` are taken for one. Example: {(13, 20): 1} and {(12, 20): -1}, from 15 on nothing.
    """
    first_rows, counts = add_up(rows, compared, owner, any_order=any_order)
    if (counts < 0).any():
        return add_up(rows, compared, owner, low, any_order=any_order)
    return first_rows, counts


def _comparable(values: pa.Array) -> np.ndarray:
    """Numbers that are equal where values are."""
    if values.type == pa.uint64():
        return np.asarray(values.to_numpy())
    return Codec.of(values.type, False, [values]).encode(values)


def rows_over(run: SortedRun, slices: Slices, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Rows of keys that hold somewhere in their ranges [low, high), and the range of each."""
    rows, owner = positions_of(slices.low, slices.at_or_after(high))
    keep = np.flatnonzero(column(run, END)[rows] > low[owner])
    return rows[keep], owner[keep]


def events_over(
    runs: Sequence[SortedRun],
    schema: pa.Schema,
    compared: Sequence[str],
    ids: Ids,
    low: Ints,
    high: Ints,
    *,
    any_order: bool = False,
    among: Sequence[tuple[Ints, Ints]] | None = None,
) -> tuple[pa.RecordBatch, Ints]:
    """Events alive somewhere in the ranges [low, high) of their keys, and the range of each.

    An event is there once, with how many of it there are. Only rows of the runs and their ranges
    that are `among` given ones are read, else all.
    """
    if among is None:
        among = [rows_over(run, Slices(run, ids), low, high) for run in runs]
    parts, owners = [no_rows(schema)], [np.empty(0, np.int64)]
    for run, (positions, range_) in zip(runs, among, strict=True):
        parts.append(run.rows.take(pa.array(positions)))
        owners.append(range_)
    rows, owner = pa.concat_batches(parts), np.concatenate(owners)
    first_rows, counts = added_up(rows, compared, owner, low[owner], any_order=any_order)
    rows = rows.take(pa.array(first_rows))
    return rows.set_column(3, rows.schema.field(COUNT), pa.array(counts)), owner[first_rows]
