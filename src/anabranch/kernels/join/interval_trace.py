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
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.grouped import Ids, Ints, order_by_id_and_time, positions_of, taken
from anabranch.kernels.contract.column_names import CLASS, END, ID, JOIN_ROW_CHECK, ROW, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace.event_trace import add_up, added_up
from anabranch.kernels.trace.rows_at import RowsAt
from anabranch.kernels.trace.runs import Merge, search, slices, with_times
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.time import FOREVER, Time

_ENDLESS: Final = 40
BLOCK_ROWS: Final = 1 << 20
"""Candidates are compared in blocks of about this many rows, to bound memory."""

LOOK_FIRST_FROM_ROWS: Final = 20_000
"""From this row count on, hashes are read only of events that times do not tell from moved ones."""


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
    ids, start = taken(ids, rows), taken(start, rows)
    kind = length_class(start, ends)
    order = _order(kind, ids, start)
    rows = rows[order]
    arrays = {
        CLASS: pa.array(taken(kind, order)),
        ID: pa.array(taken(ids, order)),
        TIME: pa.array(taken(start, order)),
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
        names = (CLASS, ID, TIME, END, COUNT)
        kind, ids, start, end, counts = (rows.column(name).to_numpy() for name in names)
        stays = end >= stable
        if (counts < 0).any():
            at = RowsAt([rows], [np.arange(len(ids))])
            counts = _left_over(at, start, end, counts, ids)
            stays &= counts != 0
            index = rows.schema.get_field_index(COUNT)
            rows = rows.set_column(index, rows.schema.field(COUNT), pa.array(counts))
        kept: Ints | None = None
        if not stays.all():
            kept = np.flatnonzero(stays)
            kind, ids, start = (taken(each, kept) for each in (kind, ids, start))
        order = _order(kind, ids, start)
        rows = rows.take(pa.array(order if kept is None else kept[order]))
        return with_times(rows, rows.column(END).to_numpy())

    return merge


def _left_over(
    rows: RowsAt,
    start: Ints,
    end: Ints,
    counts: Ints,
    owner: np.ndarray,
    low: Ints | None = None,
) -> Ints:
    """The counts of events when those below 0 have been taken from equal ones of an owner.

    Where `low` is given, all events hold somewhere from there on, and no count below 0 is left (see
    `added_up`).
    """
    names = [name for name in (ROW, JOIN_ROW_CHECK) if name in rows.names]
    if columns.is_compiled(len(start)):
        cancelled = _cancelled(rows, names, start, end, counts, owner.view(np.uint64))
        if low is None or not (cancelled < 0).any():
            return cancelled
    hashes = [rows.numbers(name) for name in names]
    arrays = [pa.array(part) for part in (start, end, counts, *hashes)]
    events = pa.RecordBatch.from_arrays(arrays, names=[TIME, END, COUNT, *names])
    if low is None:
        first_rows, summed = add_up(events, names, owner)
    else:
        first_rows, summed = added_up(events, names, owner, low)
    left = np.zeros(len(start), np.int64)
    left[first_rows] = summed
    return left


def _cancelled(
    rows: RowsAt, names: Sequence[str], start: Ints, end: Ints, counts: Ints, owner: Ids
) -> Ints:
    """The same by compiled loops; what is taken from an event that is not there stays below 0."""
    native = columns.native()
    some: Ints | None = None
    times = (start, end, counts)
    if len(start) >= LOOK_FIRST_FROM_ROWS:
        some = native.near_negative(owner, start, end, counts)
        rows, owner = rows.take(some), taken(owner, some)
        times = (taken(start, some), taken(end, some), taken(counts, some))
    row, check = [rows.numbers(name) for name in names] or (owner, owner)
    left: Ints = native.cancel(owner, times[0], times[1], row, check, times[2])
    if some is None:
        return left
    all_left = counts.copy()
    all_left[some] = left
    return all_left


@final
@dataclass(frozen=True, slots=True, eq=False)
class HeldEvents:
    """Events that a side holds, with the stretch that each was found for.

    Attributes:
        rows: Where their other columns are.
        owner: The number of the stretch.
        start: When they begin.
        end: When they end.
    """

    rows: RowsAt
    owner: Ints
    start: Ints
    end: Ints

    def take(self, rows: Ints) -> HeldEvents:
        """Some of them: ascending, and perhaps several times."""
        return HeldEvents(
            self.rows.take(rows),
            *(taken(each, rows) for each in (self.owner, self.start, self.end)),
        )


def overlapping(runs: Sequence[SortedRun], ids: Ids, low: Ints, high: Ints) -> Iterator[HeldEvents]:
    """Events of each key that hold somewhere in [low, high), as often as they are there.

    They come in blocks, so that memory is bounded; every stretch is in one block.
    """
    if not runs or not len(ids):
        return
    found = [(run, list(_ranges(run, ids, low, high))) for run in runs if len(run)]
    if not found:
        return
    amount = np.sum([stop - begin for _, parts in found for begin, stop in parts], axis=0)
    cuts = np.searchsorted(
        np.cumsum(amount), np.arange(BLOCK_ROWS, amount.sum() + BLOCK_ROWS, BLOCK_ROWS)
    )
    edges = np.unique(np.concatenate([[0], np.minimum(cuts + 1, len(ids)), [len(ids)]]))
    for first, last in pairwise(edges):
        parts, positions, owners, ends = [], [], [], []
        for run, ranges in found:
            run_ends, of_run = run.rows.column(END).to_numpy(), []
            for begin, stop in ranges:
                position, owner = positions_of(begin[first:last], stop[first:last])
                if not len(position):
                    continue
                owner += first
                end = taken(run_ends, position)
                keep = np.flatnonzero(end > taken(low, owner))
                of_run.append(taken(position, keep))
                owners.append(taken(owner, keep))
                ends.append(taken(end, keep))
            if of_run:
                parts.append(run.rows)
                positions.append(_concatenated(of_run))
        if parts:
            rows = RowsAt(parts, positions)
            yield _netted(rows, _concatenated(owners), _concatenated(ends), low)


def _netted(rows: RowsAt, owner: Ints, end: Ints, low: Ints) -> HeldEvents:
    """The events that are left when counts are added up, each as often as it is there."""
    held, counts = HeldEvents(rows, owner, rows.numbers(TIME), end), rows.numbers(COUNT)
    if (counts == 1).all():
        return held
    if (counts < 0).any():
        counts = _left_over(rows, held.start, end, counts, owner, taken(low, owner))
        left = np.flatnonzero(counts)
        held, counts = held.take(left), taken(counts, left)
    if (counts != 1).any():
        held = held.take(np.repeat(np.arange(len(counts)), counts))
    return held


def _concatenated(parts: Sequence[Ints]) -> Ints:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _ranges(run: SortedRun, ids: Ids, low: Ints, high: Ints) -> Iterator[tuple[Ints, Ints]]:
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
        yield first, stop


def _before(times: Ints, amount: int) -> Ints:
    """Times less an amount, not before the beginning of time."""
    least = np.iinfo(np.int64).min + amount
    return np.where(times < least, np.iinfo(np.int64).min, times - np.int64(amount))
