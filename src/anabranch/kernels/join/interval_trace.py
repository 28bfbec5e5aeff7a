"""Events by key and lifetime: find those that overlap a stretch of time.

Runs are sorted by class of length, key and start. All lifetimes of a class are of similar length
(within a factor of four), so the events of a key that overlap `[low, high)` lie in one range of
starts per class: at most a few times as many rows are read as overlap, however long the history
of the key and however different its lifetimes.

Why a range is enough: an event of class c is shorter than 4^c, so one that overlaps [low, high)
starts in (low - 4^c, high). The range may hold events that have ended before `low`, but none is
shorter than 4^(c-1), so there are only a few times as many of them as overlap.

Example: lifetimes [0, 3), [0, 900) and [500, 503) are in the classes 1, 5 and 1 (shorter than 4,
1024 and 4). What overlaps [501, 502)? Class 1: starts in (497, 502), only [500, 503) is read. Class
5: starts in (-523, 502), [0, 900) is read. [0, 3) is not read, however many like it there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.grouped import Ids, Ints, order_by_id_and_time, positions_of
from anabranch.kernels.contract.column_names import CLASS, END, ID, JOIN_ROW_CHECK, ROW, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace.event_trace import add_up, added_up
from anabranch.kernels.trace.runs import Merge, search, slices, with_times
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import no_rows
from anabranch.model.time import FOREVER, Time

_ENDLESS: Final = 40
BLOCK_ROWS: Final = 1 << 20
"""Candidates are compared in blocks of about this many rows, to bound memory."""


def interval_rows(
    ids: Ids,
    start: Ints,
    end: Ints,
    new_end: Ints,
    values: Sequence[tuple[str, pa.Array]],
) -> pa.RecordBatch:
    """A sorted run: a move takes the event with the old end away, adds the one with the new end."""
    gone, come = np.flatnonzero(end > start), np.flatnonzero(new_end > start)
    rows = np.concatenate([gone, come])
    ends = np.concatenate([end[gone], new_end[come]])
    counts = np.ones(len(rows), np.int64)
    counts[: len(gone)] = -1
    kind = length_class(start[rows], ends)
    order = _order(kind, ids[rows], start[rows])
    rows = rows[order]
    arrays = {
        CLASS: pa.array(kind[order]),
        ID: pa.array(ids[rows]),
        TIME: pa.array(start[rows]),
        END: pa.array(ends[order]),
        COUNT: pa.array(counts[order]),
        **{name: value.take(pa.array(rows)) for name, value in values},
    }
    return with_times(pa.RecordBatch.from_pydict(arrays), ends[order])


def length_class(start: Ints, end: Ints) -> np.ndarray:
    """Class c has the lifetimes that are shorter than 4^c and not in a class before."""
    length = (end.view(np.uint64) - start.view(np.uint64)).astype(np.float64)
    kind = (np.frexp(length)[1] + 1) // 2
    return np.where(end == FOREVER, _ENDLESS, kind).astype(np.uint8)


def _order(kind: np.ndarray, ids: Ids, start: Ints) -> Ints:
    order = order_by_id_and_time(ids, start)
    if len(kind) and (kind == kind[0]).all():
        return order
    return np.asarray(order[np.argsort(kind[order], kind="stable")])


def interval_merger(stable: Time) -> Merge:
    """Merge runs: add up counts, drop what is netted out or ended before the stable point."""

    def merge(runs: Sequence[SortedRun], whole: bool) -> pa.RecordBatch:
        del whole
        rows = pa.concat_batches([run.rows for run in runs])
        alive = rows.column(END).to_numpy() >= stable
        if not alive.all():
            rows = rows.take(pa.array(np.flatnonzero(alive)))
        kind, ids, start = (rows.column(name).to_numpy() for name in (CLASS, ID, TIME))
        if (rows.column(COUNT).to_numpy() < 0).any():
            positions, counts = add_up(rows, _hashes(rows), ids)
            rows = rows.take(pa.array(positions))
            index = rows.schema.get_field_index(COUNT)
            rows = rows.set_column(index, rows.schema.field(COUNT), pa.array(counts))
            kind, ids, start = (rows.column(name).to_numpy() for name in (CLASS, ID, TIME))
        rows = rows.take(pa.array(_order(kind, ids, start)))
        return with_times(rows, rows.column(END).to_numpy())

    return merge


def _hashes(rows: pa.RecordBatch) -> list[str]:
    """The columns that tell the events of one key apart, where there are any."""
    return [name for name in (ROW, JOIN_ROW_CHECK) if name in rows.schema.names]


def overlapping(
    runs: Sequence[SortedRun], schema: pa.Schema, ids: Ids, low: Ints, high: Ints
) -> Iterator[tuple[pa.RecordBatch, Ints]]:
    """Events of each key that hold somewhere in [low, high), and whose stretch it is.

    They come in blocks, so that memory is bounded; every stretch is in one block. Rows are netted:
    their counts are positive.
    """
    if not runs or not len(ids):
        return
    found = [part for run in runs for part in _ranges(run, ids, low, high)]
    if not found:
        return
    amount = np.sum([stop - begin for _, begin, stop in found], axis=0)
    cuts = np.searchsorted(
        np.cumsum(amount), np.arange(BLOCK_ROWS, amount.sum() + BLOCK_ROWS, BLOCK_ROWS)
    )
    edges = np.unique(np.concatenate([[0], np.minimum(cuts + 1, len(ids)), [len(ids)]]))
    for first, last in pairwise(edges):
        parts, owners = [no_rows(schema)], [np.empty(0, np.int64)]
        for run, begin, stop in found:
            positions, owner = positions_of(begin[first:last], stop[first:last])
            if not len(positions):
                continue
            owner += first
            ends = run.rows.column(END).to_numpy()
            keep = np.flatnonzero(ends[positions] > low[owner])
            parts.append(run.rows.take(pa.array(positions[keep])))
            owners.append(owner[keep])
        rows, owner = pa.concat_batches(parts), np.concatenate(owners)
        if len(owners) > 1 and (rows.column(COUNT).to_numpy() < 0).any():
            first_rows, counts = added_up(rows, _hashes(rows), owner, low[owner])
            rows, owner = rows.take(pa.array(first_rows)), owner[first_rows]
            index = rows.schema.get_field_index(COUNT)
            rows = rows.set_column(index, rows.schema.field(COUNT), pa.array(counts))
        yield rows, owner


def _ranges(
    run: SortedRun, ids: Ids, low: Ints, high: Ints
) -> Iterator[tuple[SortedRun, Ints, Ints]]:
    """For every class in a run the rows of each key whose starts are near enough."""
    kinds = run.rows.column(CLASS).to_numpy()
    held, times = run.rows.column(ID).to_numpy(), run.rows.column(TIME).to_numpy()
    borders = np.searchsorted(kinds, np.arange(_ENDLESS + 2, dtype=np.uint8))
    for kind in np.flatnonzero(np.diff(borders)):
        begin, end = int(borders[kind]), int(borders[kind + 1])
        first, last = (begin + side for side in slices(held[begin:end], ids))
        if kind < 31:
            earliest = _before(low, 4 ** int(kind) - 2)
            first = search(times, first, last, earliest, after_equal=False)
        stop = search(times, first, last, high, after_equal=False)
        yield run, first, stop


def _before(times: Ints, amount: int) -> Ints:
    """Times less an amount, not before the beginning of time."""
    least = np.iinfo(np.int64).min + amount
    return np.where(times < least, np.iinfo(np.int64).min, times - np.int64(amount))
