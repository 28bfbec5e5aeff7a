"""Points in sessions, per group: what a trace holds of them, and what it forgets.

Two lists of runs. Points have rows `(id, time, count, hashes, payload...)`: so many more of this
payload are at this instant (fewer, where the count is negative). Sessions are events of their
group, `(id, start, end, count)`. All runs of a list add up. A session that ends at or before the
stable point is over: nothing joins it any more, and it is forgotten with its points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    Mask,
    is_first,
    is_last,
    order_by_id_and_time,
)
from anabranch.kernels.contract.column_names import CHECK, END, ID, ROW, ROW_CHECK, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.contract.packed_events import payload_names
from anabranch.kernels.lifetimes.packed_events import concat_where
from anabranch.kernels.trace import runs as run_sizes
from anabranch.kernels.trace.event_trace import (
    add_up,
    event_rows,
    events_merger,
    events_over,
    events_schema,
)
from anabranch.kernels.trace.runs import (
    Merge,
    Slices,
    add_run,
    column,
    search,
    slices,
    take_ranges,
    with_times,
)
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import no_rows
from anabranch.model.time import FOREVER, Duration, Time, add_saturating

FIRST_LOOK_ROWS: Final = 64
"""The first look at the earliest rows adds up this many; each further one 16 times as many."""

_SESSIONS: Final = events_schema([])


@final
@dataclass(frozen=True, slots=True)
class SessionLayout:
    """The columns of the points; `checked` says that groups have a second hash."""

    payload: pa.Schema
    gap: Duration
    checked: bool

    def schema(self) -> pa.Schema:
        """The columns of a run of points, and of what the exchange carries."""
        fields = [(ID, pa.uint64()), (TIME, pa.int64()), (COUNT, pa.int64())]
        fields += [(CHECK, pa.uint64())] if self.checked else []
        fields += [(ROW, pa.uint64()), (ROW_CHECK, pa.uint64())]
        return pa.schema([*fields, *zip(payload_names(self.payload), self.payload.types)])


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sessions:
    """Stretches of time of groups, by group and start."""

    ids: Ids
    start: Ints
    end: Ints

    def where(self, keep: Mask) -> Sessions:
        """Those at these positions."""
        return Sessions(self.ids[keep], self.start[keep], self.end[keep])

    @staticmethod
    def of(ids: Ids, times: Ints, gap: Duration) -> tuple[Sessions, Ints]:
        """The sessions of points, sorted by group and time, and the number of each point's."""
        begins = is_first(ids)
        apart = times[1:].view(np.uint64) - times[:-1].view(np.uint64)
        begins[1:] |= apart >= np.uint64(gap)
        ends = np.append(begins[1:], True)[: len(begins)]
        found = Sessions(ids[begins], times[begins], add_saturating(times[ends], gap))
        return found, np.cumsum(begins) - 1

    def holding(self, ids: Ids, times: Ints) -> Ints:
        """Which of them holds each instant of a group, or -1."""
        low, high = slices(self.ids, ids)
        session = search(self.start, low, high, times, after_equal=True) - 1
        within = (session >= low) & (session >= 0)
        within[within] = times[within] < self.end[session[within]]
        return np.where(within, session, -1)


def touched(runs: Sequence[SortedRun], fresh: Sessions) -> Sessions:
    """The sessions that are held and overlap fresh ones."""
    groups = fresh.ids[is_first(fresh.ids)]
    low, high = fresh.start[is_first(fresh.ids)], fresh.end[is_last(fresh.ids)]
    rows, owner = events_over(runs, _SESSIONS, (), groups, low, high)
    held = _sessions_of(rows)
    first, after = slices(fresh.ids, groups)
    # The first fresh one that ends later than a held one begins is the one that it may overlap.
    session = search(fresh.end, first[owner], after[owner], held.start, after_equal=True)
    there = session < after[owner]
    there[there] = fresh.start[session[there]] < held.end[there]
    return held.where(there)


def points_in(
    runs: Sequence[SortedRun], layout: SessionLayout, sessions: Sessions
) -> pa.RecordBatch:
    """The rows of all points in some sessions; not yet added up."""
    parts = [no_rows(layout.schema())]
    for run in runs:
        at = Slices(run, sessions.ids)
        low, high = at.at_or_after(sessions.start), at.at_or_after(sessions.end)
        parts.append(take_ranges(run, low, high)[0])
    return pa.concat_batches(parts)


def points_order(rows: pa.RecordBatch) -> tuple[Ints, Mask]:
    """An order by group, instant and payload, and where in it another point begins."""
    ids, times = rows.column(ID).to_numpy(), rows.column(TIME).to_numpy()
    order = order_by_id_and_time(ids, times)
    first = is_first(ids[order], times[order])
    if not first.all():
        hashes = [rows.column(name).to_numpy() for name in (ROW_CHECK, ROW)]
        several = ~first
        several[:-1] |= ~first[1:]
        tied = order[several]
        keys = [key[tied] for key in (*hashes, times, ids)]
        order[several] = tied[np.lexsort(keys)]
        first = is_first(*(key[order] for key in (*hashes, times, ids)))
    return order, first


def open_since(runs: Sequence[SortedRun], stable: Time) -> int:
    """The start of the earliest session that is open at the stable point, FOREVER without any.

    It began before, and ends later: what comes from the stable point on may still join it.
    """
    rows = concat_where(
        [
            (run.rows, (column(run, TIME) < stable) & (column(run, END) > stable))
            for run in (SortedRun(no_rows(_SESSIONS)), *runs)
        ]
    )
    start = rows.column(TIME).to_numpy()
    # Only the earliest are added up, more of them if what was added there was taken away again.
    look = FIRST_LOOK_ROWS
    while True:
        chosen = rows
        if len(start) > look:
            least = np.partition(start, look)[look]
            chosen = rows.take(pa.array(np.flatnonzero(start <= least)))
        positions, _ = add_up(chosen, (), chosen.column(ID).to_numpy())
        if len(positions) or chosen is rows:
            times: Ints = chosen.column(TIME).to_numpy()[positions]
            return int(times.min(initial=FOREVER))
        look *= 16


def add_sessions(
    runs: tuple[SortedRun, ...], old: Sessions, new: Sessions, stable: Time
) -> tuple[SortedRun, ...]:
    """Replace old sessions by new ones; forget those that are over."""
    both = [np.concatenate([old.end, new.end]), np.concatenate([old.start, new.start])]
    both.append(np.concatenate([old.ids, new.ids]))
    sign = np.repeat([-1, 1], [len(old.ids), len(new.ids)])
    order = np.lexsort(both)
    end, start, ids = (key[order] for key in both)
    first = is_first(ids, start, end)
    if len(order):
        change = np.add.reduceat(sign[order], np.flatnonzero(first))
        keep, change = np.flatnonzero(first)[change != 0], change[change != 0]
        ids, start, end = ids[keep], start[keep], end[keep]
        gone, come = np.where(change < 0, end, start), np.where(change > 0, end, start)
    else:
        gone = come = start
    fresh = event_rows(ids, start, gone, come, [])
    return _add(runs, fresh, stable, events_merger(stable, ()))


def add_points(
    runs: tuple[SortedRun, ...],
    layout: SessionLayout,
    fresh: pa.RecordBatch,
    sessions: Sequence[SortedRun],
    stable: Time,
) -> tuple[SortedRun, ...]:
    """Append points; forget those that are in no session of the trace any more."""

    def merge(runs: Sequence[SortedRun], whole: bool) -> pa.RecordBatch:
        del whole
        rows = pa.concat_batches([run.rows for run in runs])
        order, first = points_order(rows)
        begins = np.flatnonzero(first)
        counts = np.add.reduceat(rows.column(COUNT).to_numpy()[order], begins)
        positions, counts = order[begins][counts != 0], counts[counts != 0]
        ids, times = (rows.column(name).to_numpy()[positions] for name in (ID, TIME))
        live = _live(sessions, stable)
        at = live.holding(ids, times)
        keep = (at >= 0) | (times >= stable)
        ends = add_saturating(times, layout.gap)
        ends[at >= 0] = live.end[at[at >= 0]]
        rest = rows.take(pa.array(positions[keep]))
        rest = rest.set_column(2, rest.schema.field(COUNT), pa.array(counts[keep]))
        return with_times(rest, ends[keep])

    if fresh.num_rows:
        fresh = with_times(fresh, add_saturating(fresh.column(TIME).to_numpy(), layout.gap))
    return _add(runs, fresh, stable, merge)


def _add(
    runs: tuple[SortedRun, ...], fresh: pa.RecordBatch, stable: Time, merge: Merge
) -> tuple[SortedRun, ...]:
    every = (*runs, SortedRun(fresh)) if fresh.num_rows else runs
    if every and sum(map(len, every)) <= run_sizes.MERGE_ALL_UP_TO_ROWS:
        merged = merge(every, True)
        return (SortedRun(merged),) if merged.num_rows else ()
    return add_run(runs, fresh, stable, merge, anchors=False)


def _live(runs: Sequence[SortedRun], stable: Time) -> Sessions:
    """The sessions that are not over."""
    parts = [(run.rows, column(run, END) > stable) for run in runs]
    rows = concat_where([(no_rows(_SESSIONS), np.empty(0, np.bool_)), *parts])
    positions, _ = add_up(rows, (), rows.column(ID).to_numpy())
    return _sessions_of(rows.take(pa.array(positions)))


def _sessions_of(rows: pa.RecordBatch) -> Sessions:
    ids, start, end = (rows.column(name).to_numpy() for name in (ID, TIME, END))
    return Sessions(ids, start, end)
