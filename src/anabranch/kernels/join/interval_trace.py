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
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    Mask,
    order_by_id_and_time,
    positions_of,
    taken,
)
from anabranch.kernels.contract.column_names import CLASS, END, ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.join.event_identity import (
    HASHES,
    event_hashes,
    payload_addresses,
    same_events,
)
from anabranch.kernels.trace.event_trace import add_up, added_up
from anabranch.kernels.trace.ranked_events import unknown_event
from anabranch.kernels.trace.rows_at import RowsAt
from anabranch.kernels.trace.runs import Merge, gather, search, slices, with_times
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.time import FOREVER, Time

_ENDLESS: Final = 40
BLOCK_ROWS: Final = 1 << 20
"""Candidates are compared in blocks of about this many rows, to bound memory."""

COMPARED_UP_TO_ROWS: Final = 8
"""Events of one key and start are compared each with each other up to this row count."""

EVERY: Final[Mask] = np.empty(0, np.bool_)
"""In place of marks: all rows are meant."""


def interval_rows(
    ids: Ids,
    start: Ints,
    end: Ints,
    new_end: Ints,
    values: Sequence[tuple[str, pa.Array]],
    *,
    rows: Ints | None = None,
    chosen: Mask = EVERY,
) -> pa.RecordBatch:
    """A sorted run: a move takes the event with the old end away, adds the one with the new end.

    See `FreshRun.of`.
    """
    return FreshRun.of(ids, start, end, new_end, values, rows=rows, chosen=chosen).rows


@final
@dataclass(frozen=True, slots=True, eq=False)
class FreshRun:
    """What a step writes of a side.

    Attributes:
        rows: The run.
        source: Where among the values those of each row are.
    """

    rows: pa.RecordBatch
    source: Ints

    @staticmethod
    def of(
        ids: Ids,
        start: Ints,
        end: Ints,
        new_end: Ints,
        values: Sequence[tuple[str, pa.Array]],
        *,
        rows: Ints | None = None,
        chosen: Mask = EVERY,
    ) -> FreshRun:
        """A move takes the event with the old end away and adds the one with the new end.

        Args:
            ids: The key of each move.
            start: When its event begins.
            end: When it ended.
            new_end: When it ends.
            values: What else is remembered of each.
            rows: Where among the values those of each move are, which come by key and start. None:
                moves and values come in the same order, which may be any.
            chosen: Which moves are meant.
        """
        if rows is None:
            rows = order_by_id_and_time(ids, start)
            ids = taken(ids, rows)
            start, end, new_end = (taken(each, rows) for each in (start, end, new_end))
        if columns.is_compiled(len(ids)):
            kind, ids, start, ends, counts, of_move = columns.native().run_rows(
                chosen, ids, start, end, new_end
            )
        else:
            gone, come = end > start, new_end > start
            if len(chosen):
                gone, come = gone & chosen, come & chosen
            of_move = np.concatenate([np.flatnonzero(gone), np.flatnonzero(come)])
            ends = np.concatenate([end[gone], new_end[come]])
            counts = np.ones(len(of_move), np.int64)
            counts[: int(gone.sum())] = -1
            ids, start = taken(ids, of_move), taken(start, of_move)
            kind = length_class(start, ends)
            by_class = _order(kind, ids, start)
            kind, ids, start, ends, counts, of_move = (
                taken(each, by_class) for each in (kind, ids, start, ends, counts, of_move)
            )
        arrays = {CLASS: kind, ID: ids, TIME: start, END: ends, COUNT: counts}
        positions = taken(rows, of_move)
        arrays |= {name: gather([value], [positions]) for name, value in values}
        run = pa.RecordBatch.from_pydict({n: pa.array(a) for n, a in arrays.items()})
        return FreshRun(with_times(run, ends), positions)


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
        rows = pa.concat_batches(_with_equal_columns([run.rows for run in runs]))
        names = (CLASS, ID, TIME, END, COUNT)
        kind, ids, start, end, counts = (rows.column(name).to_numpy() for name in names)
        # An event and its withdrawal end at once: what has ended need not be netted.
        is_compiled = columns.is_compiled(len(ids))
        if is_compiled:
            cuts = np.cumsum([0, *(len(run) for run in runs)])
            order = columns.native().merge_runs(kind, ids, start, end, cuts, stable)
        else:
            kept = np.flatnonzero(end >= stable)
            order = kept[_order(kind[kept], ids[kept], start[kept])]
        is_settled = not (counts < 0).any()
        if is_compiled and not is_settled:
            is_settled, order = _cancelled_in_order(rows, order, counts)
        if not is_settled:
            at = RowsAt([rows], [np.arange(len(ids))])
            if is_compiled:
                found = columns.native().match_sorted(
                    order, ids, start, end, counts, COMPARED_UP_TO_ROWS
                )
                left = _settled(at, (start, end, counts, ids), *found)
            else:
                left = np.zeros(len(ids), np.int64)
                of_kept = (taken(each, order) for each in (start, end, counts, ids))
                left[order] = _added_up(at.take(order), *of_kept)
            is_left = left != 0
            order = order[taken(is_left, order)]
            if ((left != counts) & is_left).any():
                index = rows.schema.get_field_index(COUNT)
                rows = rows.set_column(index, rows.schema.field(COUNT), pa.array(left))
        rows = rows.take(pa.array(order))
        return with_times(rows, rows.column(END).to_numpy())

    return merge


def _cancelled_in_order(rows: pa.RecordBatch, order: Ints, counts: Ints) -> tuple[bool, Ints]:
    """An order without counts below 0 and the events that they take away, and whether it is one.

    This is for payloads of plain numbers where all is as it nearly always is.
    """
    found = payload_addresses([rows])
    if found is None:
        return False, order
    ids, start, end = (rows.column(name).to_numpy() for name in (ID, TIME, END))
    result: tuple[bool, Ints] = columns.native().cancel_sorted(
        order, ids, start, end, counts, *found, COMPARED_UP_TO_ROWS
    )
    return result


def _with_equal_columns(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Runs of an inner join had hashes of payloads once: they are left out beside those without."""
    names = parts[0].schema.names
    if all(part.schema.names == names for part in parts):
        return parts
    shared = [name for name in names if name not in HASHES]
    return [part.select(shared) for part in parts]


def _added_up(
    rows: RowsAt, start: Ints, end: Ints, counts: Ints, owner: np.ndarray, low: Ints | None = None
) -> Ints:
    """The counts of events when those below 0 have been taken from equal ones of an owner.

    Where `low` is given, all events hold somewhere from there on, and no count below 0 is left (see
    `added_up`).
    """
    hashes = event_hashes(rows)
    names = HASHES[: len(hashes)]
    arrays = [pa.array(part) for part in (start, end, counts, *hashes)]
    events = pa.RecordBatch.from_arrays(arrays, names=[TIME, END, COUNT, *names])
    if low is None:
        first_rows, summed = add_up(events, names, owner)
    else:
        first_rows, summed = added_up(events, names, owner, low)
    left = np.zeros(len(start), np.int64)
    left[first_rows] = summed
    return left


Events = tuple[Ints, Ints, Ints, np.ndarray]
"""Start, end, count and owner of some rows."""


def _is_cancelled(held: HeldEvents, segments: Sequence[int]) -> bool:
    """Whether counts below 0 were taken from others in place; False: nothing was done.

    See `_cancelled`; this is for payloads of plain numbers where all is as it nearly always is.
    """
    found = payload_addresses(held.parts)
    if found is None:
        return False
    where = (np.array(segments), held.stops, held.position, held.owner, held.start, held.end)
    return bool(columns.native().cancel_held(*where, held.count, *found, COMPARED_UP_TO_ROWS))


def _cancelled(rows: RowsAt, events: Events, segments: Sequence[int]) -> Ints:
    """The same by compiled loops; what is taken from an event that is not there stays below 0.

    Times tell nearly always which event is meant: its payload is compared with that of one other.
    Hashes are needed where several events of an owner have the same lifetime.
    """
    start, end, counts, owner = events
    times = (owner, start, end, counts)
    is_done, negative, positive, unclear = columns.native().match_held(
        np.array(segments), *times, COMPARED_UP_TO_ROWS
    )
    if not is_done:
        times = (owner.view(np.uint64), start, end, counts)
        negative, positive, group, unclear = columns.native().match_negative(*times)
        return _settled(rows, events, negative[group], positive, unclear)
    unclear = np.unique(unclear) if len(unclear) else unclear
    return _settled(rows, events, negative, positive, unclear)


def _settled(rows: RowsAt, events: Events, negative: Ints, positive: Ints, unclear: Ints) -> Ints:
    """The counts that are left, given which rows have the same times (see `match_held`)."""
    start, end, counts, owner = events
    left = counts.copy()
    if len(positive):
        left[positive] = 0
        left[negative] = 0
        same = same_events(rows, negative, positive)
        if not same.all():
            others = ~same
            unclear = np.sort(np.concatenate([unclear, positive[others], negative[others]]))
    if len(unclear):
        start, end, counts, owner = (taken(each, unclear) for each in events)
        row, check = event_hashes(rows.take(unclear)) or [owner.view(np.uint64)] * 2
        left[unclear] = columns.native().cancel(
            owner.view(np.uint64), start, end, row, check, counts
        )
    return left


@final
@dataclass(frozen=True, slots=True, eq=False)
class HeldEvents:
    """Events that a side holds, with the stretch that each was found for.

    Attributes:
        parts: The runs that they are in.
        stops: Where the events of each run stop in the columns below.
        position: The row of each in its run.
        owner: The number of the stretch.
        start: When they begin.
        end: When they end.
        count: How often they are there, also not at all; None: once each.
    """

    parts: Sequence[pa.RecordBatch]
    stops: Ints
    position: Ints
    owner: Ints
    start: Ints
    end: Ints
    count: Ints | None = None

    @property
    def rows(self) -> RowsAt:
        """Where their other columns are."""
        return RowsAt.cut(self.parts, self.position, self.stops)

    def take(self, rows: Ints) -> HeldEvents:
        """Some of them: ascending, and perhaps several times."""
        return HeldEvents(
            self.parts,
            np.searchsorted(rows, self.stops),
            taken(self.position, rows),
            taken(self.owner, rows),
            taken(self.start, rows),
            taken(self.end, rows),
            None if self.count is None else taken(self.count, rows),
        )

    def each(self) -> HeldEvents:
        """Each as often as it is there."""
        if self.count is None:
            return self
        return replace(self, count=None).take(np.repeat(np.arange(len(self.count)), self.count))


def overlapping(runs: Sequence[SortedRun], ids: Ids, low: Ints, high: Ints) -> Iterator[HeldEvents]:
    """Events of each key that hold somewhere in [low, high), and how often they are there.

    They come in blocks, so that memory is bounded; every stretch is in one block.
    """
    if not runs or not len(ids):
        return
    found = [(run.rows, list(_ranges(run, ids, low, high))) for run in runs if len(run)]
    if not found:
        return
    amount = np.sum([stop - begin for _, parts in found for begin, stop in parts], axis=0)
    total = np.cumsum(amount)
    cuts = np.searchsorted(total, np.arange(BLOCK_ROWS, total[-1] + BLOCK_ROWS, BLOCK_ROWS))
    edges = np.unique(np.concatenate([[0], np.minimum(cuts + 1, len(ids)), [len(ids)]]))
    for first, last in pairwise(edges.tolist()):
        rows = int(total[last - 1] - (total[first - 1] if first else 0))
        if rows:
            block = [
                (part, [(begin[first:last], stop[first:last]) for begin, stop in ranges])
                for part, ranges in found
            ]
            held, segments = _held(block, first, low, rows)
            if len(held.owner):
                yield _netted(held, segments, low)


Ranges = Sequence[tuple[Ints, Ints]]


def _held(
    block: Sequence[tuple[pa.RecordBatch, Ranges]], first: int, low: Ints, most: int
) -> tuple[HeldEvents, list[int]]:
    """The rows in ranges, of which there are `most`, that end after the `low` of their owner.

    Gives also where those of each class of each run stop, by compiled loops.
    """
    if not columns.is_compiled(most):
        return _held_by_columns(block, first, low), []
    found = [np.empty(most, np.int64) for _ in range(5)]
    size, stops, segments, is_plain = 0, [], [], True
    for rows, ranges in block:
        stored = [rows.column(name).to_numpy() for name in (TIME, END, COUNT)]
        for begin, stop in ranges:
            size, plain = columns.native().held_rows(begin, stop, first, low, *stored, size, *found)
            is_plain &= plain
            segments.append(size)
        stops.append(size)
    position, owner, start, end, count = (each[:size] for each in found)
    parts, cuts = [rows for rows, _ in block], np.array(stops)
    events = (position, owner, start, end)
    return HeldEvents(parts, cuts, *events, None if is_plain else count), segments


def _held_by_columns(
    block: Sequence[tuple[pa.RecordBatch, Ranges]], first: int, low: Ints
) -> HeldEvents:
    parts, positions, owners, times, ends, counts = [], [], [], [], [], []
    for rows, ranges in block:
        several = [positions_of(begin, stop) for begin, stop in ranges]
        position = np.concatenate([each for each, _ in several])
        owner = np.concatenate([each for _, each in several]) + first
        end = taken(rows.column(END).to_numpy(), position)
        keep = np.flatnonzero(end > taken(low, owner))
        position = taken(position, keep)
        parts.append(rows)
        positions.append(position)
        owners.append(taken(owner, keep))
        ends.append(taken(end, keep))
        times.append(taken(rows.column(TIME).to_numpy(), position))
        counts.append(taken(rows.column(COUNT).to_numpy(), position))
    columns_of = [np.concatenate(each) for each in (positions, owners, times, ends, counts)]
    position, owner, start, end, count = columns_of
    stops = np.cumsum([len(each) for each in positions])
    is_plain = bool((count == 1).all())
    return HeldEvents(parts, stops, position, owner, start, end, None if is_plain else count)


def _netted(held: HeldEvents, segments: Sequence[int], low: Ints) -> HeldEvents:
    """The same events with counts that are added up, none of them below 0.

    Raises:
        StreamError: More went than came.
    """
    if held.count is None or (segments and _is_cancelled(held, segments)):
        return held
    if not (held.count < 0).any():
        return held
    rows, owner = held.rows, held.owner
    events = (held.start, held.end, held.count, owner)
    if segments:
        left = _cancelled(rows, events, segments)
        if not (left < 0).any():
            return replace(held, count=left)
    left = _added_up(rows, *events, taken(low, owner))
    if (left < 0).any():
        raise unknown_event("a join")
    return replace(held, count=left)


def _ranges(run: SortedRun, ids: Ids, low: Ints, high: Ints) -> Iterator[tuple[Ints, Ints]]:
    """For every class in a run the rows of each key whose starts are near enough."""
    kinds = run.rows.column(CLASS).to_numpy()
    held, times = run.rows.column(ID).to_numpy(), run.rows.column(TIME).to_numpy()
    borders = np.searchsorted(kinds, np.arange(_ENDLESS + 2, dtype=np.uint8))
    is_compiled = columns.is_compiled(len(ids))
    for kind in np.flatnonzero(np.diff(borders)):
        begin, end = int(borders[kind]), int(borders[kind + 1])
        reach = 4 ** int(kind) - 1 if kind < 31 else -1
        if is_compiled:
            yield columns.native().near_ranges(
                held[begin:end], times[begin:end], begin, ids, low, high, reach
            )
            continue
        first, last = (begin + side for side in slices(held[begin:end], ids))
        if reach >= 0:
            earliest = _before(low, reach - 1)
            first = search(times, first, last, earliest, after_equal=False)
        stop = search(times, first, last, high, after_equal=False)
        yield first, stop


def _before(times: Ints, amount: int) -> Ints:
    """Times less an amount, not before the beginning of time."""
    least = np.iinfo(np.int64).min + amount
    return np.where(times < least, np.iinfo(np.int64).min, times - np.int64(amount))
