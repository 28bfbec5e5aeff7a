"""The events of every key in the order of their values: ask for neighbours, not for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from anabranch.errors import StreamError
from anabranch.kernels.columns.families import STATISTICS
from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    Mask,
    is_first,
    order_by_id_and_time,
)
from anabranch.kernels.columns.value_order import codes_of, merge_values
from anabranch.kernels.contract.column_names import END, ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace.coverage import Coverage
from anabranch.kernels.trace.runs import Merge, Slices, column, slices, take_ranges, with_times
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import no_rows
from anabranch.model.time import Time

VALUE: Final = "value"
FIRST_LOOK_ROWS: Final = 32
"""How many rows of a run are read at first to either side of a value."""

STEP_ROWS: Final = 64
"""How many rows are read one by one for a question before neighbouring questions are joined."""

_NO_IDS: Final = np.empty(0, np.uint64)
_NO_INTS: Final = np.empty(0, np.int64)
_LEAST: Final = np.int64(-(2**63))
_MOST: Final = np.int64(2**63 - 1)


def ranked_schema(kind: pa.DataType) -> pa.Schema:
    """Columns of a run, in the order they are sorted by; `count` says how many."""
    fields = [(ID, pa.uint64()), (VALUE, kind), (TIME, pa.int64()), (END, pa.int64())]
    return pa.schema([*fields, (COUNT, pa.int64())])


def ranked_rows(
    ids: Ids, values: pa.Array, start: Ints, end: Ints, new_end: Ints
) -> pa.RecordBatch:
    """A run: a move takes the event with the old end away, adds the one with the new end."""
    gone, come = np.flatnonzero(end > start), np.flatnonzero(new_end > start)
    rows = np.concatenate([gone, come])
    values = values.take(pa.array(rows))
    codes = codes_of(values)
    arrays = [
        pa.array(ids[rows]),
        values,
        pa.array(start[rows]),
        pa.array(np.concatenate([end[gone], new_end[come]])),
        pa.array(np.repeat(np.array([-1, 1]), [len(gone), len(come)])),
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=ranked_schema(values.type))
    order = order_by_id_and_time(ids[rows], codes)
    return _add_up(batch, order, is_first(ids[rows][order], codes[order]))


def ranked_merger(stable: Time) -> Merge:
    """Merge runs: add up counts, drop what is netted out or ended before the stable point."""

    def merge(runs: Sequence[SortedRun], whole: bool) -> pa.RecordBatch:
        del whole
        parts = [_alive(run.rows, stable) for run in runs]
        rows = pa.concat_batches(parts)
        ids = [part.column(ID).to_numpy() for part in parts]
        return _add_up(rows, *merge_values(ids, rows.column(VALUE)))

    return merge


def _alive(rows: pa.RecordBatch, stable: Time) -> pa.RecordBatch:
    alive = rows.column(END).to_numpy() >= stable
    return rows if alive.all() else rows.take(pa.array(np.flatnonzero(alive)))


def _add_up(rows: pa.RecordBatch, order: Ints, first: Mask) -> pa.RecordBatch:
    """Rows in an order by key and value; those of one event become one, or none.

    `first` says which rows in that order begin another value.
    """
    count = rows.column(COUNT).to_numpy()
    tied = ~first
    tied[:-1] |= ~first[1:]
    ties = np.flatnonzero(tied)
    if len(ties):
        tied_rows, group = order[ties], np.cumsum(first)[ties]
        start, end = (rows.column(name).to_numpy()[tied_rows] for name in (TIME, END))
        again = np.lexsort((end, start, group))
        order = order.copy()
        order[ties] = tied_rows[again]
        first[ties] = is_first(group, start[again], end[again])
        sums = np.add.reduceat(count[order], np.flatnonzero(first))
        order = order[first]
    else:
        sums = count[order]
    tied_rows = np.flatnonzero(sums)
    rows = rows.take(pa.array(order[tied_rows]))
    rows = rows.set_column(4, rows.schema.field(COUNT), pa.array(sums[tied_rows]))
    return with_times(rows, rows.column(END).to_numpy())


@final
@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Questions for the value at an index of what is alive at an instant, in order.

    It is known that `base` of the alive values are smaller than `cut`. With `up` the one that is
    asked for is not smaller, without it is.
    """

    ids: Ids
    times: Ints
    index: Ints
    cut: Ints
    base: Ints
    up: Mask

    def take(self, rows: Ints) -> Asked:
        """Some of the questions."""
        return Asked(
            self.ids[rows],
            self.times[rows],
            self.index[rows],
            self.cut[rows],
            self.base[rows],
            self.up[rows],
        )


def walk(runs: Sequence[SortedRun], asked: Asked) -> tuple[Ints, Ints, Ints]:
    """The codes that are asked for, and how many alive values are smaller, smaller or equal.

    From the cut a few rows of every run are read in the direction of the answer, and eight times
    as many where that was not enough: the work follows the distance, not the number of events.
    Neighbouring questions share what is read. Answers that are near are found one by one before
    that, in compiled loops.
    """
    code, below, upto, left = stepped(runs, asked)
    width = FIRST_LOOK_ROWS
    while len(left):
        open_ = asked.take(left)
        there, *found = answered_between(runs, open_, *_reach(runs, open_, width))
        answered = left[there]
        code[answered], below[answered], upto[answered] = found
        left = left[~there]
        width *= 8
    return code, below, upto


def stepped(runs: Sequence[SortedRun], asked: Asked) -> tuple[Ints, Ints, Ints, Ints]:
    """The answers within `STEP_ROWS` rows, by compiled loops, and which questions are left."""
    loops = STATISTICS.loops(len(asked.ids))
    if loops is not None and len(runs) <= loops.RUNS:
        code, below, upto, open_questions = _step(loops, runs, asked)
        return code, below, upto, np.flatnonzero(open_questions)
    code, below, upto = np.zeros((3, len(asked.ids)), np.int64)
    return code, below, upto, np.arange(len(code))


def answered_between(
    runs: Sequence[SortedRun], asked: Asked, low: Ints, high: Ints, ended: Mask
) -> tuple[Mask, Ints, Ints, Ints]:
    """Which questions have their answer between two codes, and the answers to these.

    Where `ended` is set there is nothing beyond, so that an answer has to be there.
    """
    ids, low, high, owner = _join_ranges(asked.ids, low, high)
    rows, island = _read(runs, ids, low, high)
    last = np.full(len(ids), _LEAST)
    np.maximum.at(last, owner, asked.times)
    coverage = Coverage.of_events(
        island,
        rows.column(TIME).to_numpy(),
        rows.column(END).to_numpy(),
        rows.column(VALUE).to_numpy(),
        rows.column(COUNT).to_numpy(),
        until=last[island],
    )
    spot = coverage.at(owner, asked.times)
    smaller = coverage.below(spot, asked.cut)
    index = asked.index - asked.base + smaller
    there = (index >= 0) & (index < coverage.total(spot))
    if (ended & ~there).any():
        raise unknown_event()
    found = np.flatnonzero(there)
    codes, before, equal = coverage.pick(spot.take(found), index[found])
    below = (asked.base - smaller)[found] + before
    return there, codes, below, below + equal


def _step(loops: Any, runs: Sequence[SortedRun], asked: Asked) -> tuple[Ints, Ints, Ints, Mask]:
    """The answers within `STEP_ROWS` rows, and which questions are open."""
    columns = [
        tuple(
            [run.rows.column(name).to_numpy() for run in runs]
            + [_NO_IDS if name == ID else _NO_INTS] * (loops.RUNS - len(runs))
        )
        for name in (ID, VALUE, TIME, END, COUNT)
    ]
    questions = (asked.ids, asked.times, asked.index, asked.cut, asked.base, asked.up)
    found: tuple[Ints, Ints, Ints, Mask] = loops.step_to(len(runs), *columns, *questions, STEP_ROWS)
    return found


def _reach(runs: Sequence[SortedRun], asked: Asked, width: int) -> tuple[Ints, Ints, Mask]:
    """Ranges of codes [low, high] of which at most `width` rows lie in any run.

    The mask says that a range goes as far as there are rows.
    """
    low, high = np.full(len(asked.ids), _LEAST), np.full(len(asked.ids), _MOST)
    ended = np.ones(len(asked.ids), np.bool_)
    for run in runs:
        if not len(run):
            continue
        held = Slices(run, asked.ids, time=VALUE)
        at = held.at_or_after(asked.cut)
        right, left = np.minimum(at + width, held.high), np.maximum(at - width, held.low)
        more_right, more_left = right < held.high, left > held.low
        last = held.times[np.minimum(right, len(run) - 1)] - 1
        first = held.times[np.maximum(left - 1, 0)] + 1
        high = np.where(more_right, np.minimum(high, last), high)
        low = np.where(more_left, np.maximum(low, first), low)
        ended &= ~np.where(asked.up, more_right, more_left)
    below_cut = np.maximum(asked.cut, _LEAST + 1) - 1
    return np.where(asked.up, asked.cut, low), np.where(asked.up, high, below_cut), ended


def _join_ranges(ids: Ids, low: Ints, high: Ints) -> tuple[Ids, Ints, Ints, Ints]:
    """Ranges of one key that overlap become one; with them, the new number of every range."""
    order = order_by_id_and_time(ids, low)
    ids, low = ids[order], low[order]
    highs, rank = np.unique(high[order], return_inverse=True)
    group = (np.cumsum(is_first(ids)) - 1) * len(highs)
    reach = highs[np.maximum.accumulate(group + rank) - group]
    begins = is_first(ids)
    begins[1:] |= low[1:] > reach[:-1]
    ends = np.append(begins[1:], True)
    owner = np.empty(len(order), np.int64)
    owner[order] = np.cumsum(begins) - 1
    return ids[begins], low[begins], reach[ends], owner


def _read(
    runs: Sequence[SortedRun], ids: Ids, low: Ints, high: Ints
) -> tuple[pa.RecordBatch, Ints]:
    """Rows with codes in the ranges, and the range of each."""
    parts, owners = [no_rows(ranked_schema(pa.int64()))], [np.empty(0, np.int64)]
    for run in runs:
        held = Slices(run, ids, time=VALUE)
        rows, owner = take_ranges(run, held.at_or_after(low), held.after(high))
        parts.append(rows)
        owners.append(owner)
    return pa.concat_batches(parts), np.concatenate(owners)


def alive_between(
    runs: Sequence[SortedRun], kind: pa.DataType, ids: Ids, first: Ints, last: Ints
) -> tuple[pa.RecordBatch, Ints]:
    """Rows of some keys that are alive at one of the instants [first, last], and whose they are."""
    parts = alive_parts(runs, ids, first, last)
    none = np.empty(0, np.int64)
    rows = pa.concat_batches([no_rows(ranked_schema(kind)), *(part for part, _ in parts)])
    return rows, np.concatenate([none, *(owner for _, owner in parts)])


def alive_parts(
    runs: Sequence[SortedRun], ids: Ids, first: Ints, last: Ints
) -> list[tuple[pa.RecordBatch, Ints]]:
    """The same run by run, each in the order of keys (which are in order) and values."""
    parts = []
    for run in runs:
        low, high = slices(column(run, ID), ids)
        rows, owner = take_ranges(run, low, high)
        begins, ends = rows.column(TIME).to_numpy(), rows.column(END).to_numpy()
        alive = (begins <= last[owner]) & (ends > first[owner])
        if not alive.all():
            keep = np.flatnonzero(alive)
            rows, owner = rows.take(pa.array(keep)), owner[keep]
        parts.append((rows, owner))
    return parts


def unknown_event(where: str = "an aggregate that keeps events") -> StreamError:
    """More went than ever came."""
    return StreamError(
        "an adjust or withdrawal of an event that was never inserted",
        where=where,
        hint="run `anabranch check` on the source; every adjust must name the end that was "
        "last announced",
    )
