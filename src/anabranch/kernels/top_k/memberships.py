"""Which rows belong to an answer, and when: the events that were sent, per key.

A row has a number among those of its key, which it keeps for as long as one of its events is
held. So events are told apart without a look at their columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.grouped import Ids, Ints, is_first, merge_order, positions_of
from anabranch.kernels.columns.lazy_concat import LazyPart
from anabranch.kernels.contract.column_names import END, ID, NUMBER, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace.event_trace import event_rows, events_schema
from anabranch.kernels.trace.runs import Merge, Slices, column, with_times
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.time import Time

_ODD: Final = tuple(np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """Events of some keys: whose, when, how many; `row` says where the payload of each is.

    Attributes:
        owner: The key of each.
        start: From when on.
        end: Until when.
        count: How many.
        number: Which row it is.
        row: Where its payload stands in the parts.
        parts: The payloads, of every row once.
        whose: The key of each payload.
        next_number: Per key, a number that no row has, nor any larger one.
    """

    owner: Ints
    start: Ints
    end: Ints
    count: Ints
    number: Ids
    row: Ints
    parts: Sequence[LazyPart]
    whose: Ints
    next_number: Ids


def membership_rows(
    ids: Ids, start: Ints, end: Ints, new_end: Ints, number: Ids, payload: pa.RecordBatch
) -> pa.RecordBatch:
    """A run of moves that were sent, sorted by id and start."""
    values = [(NUMBER, pa.array(number))]
    values += [(f"key{index}", column) for index, column in enumerate(payload.columns)]
    if (end > start).any():
        return event_rows(ids, start, end, new_end, values)
    arrays = [pa.array(ids), pa.array(start), pa.array(new_end), pa.array(np.ones_like(start))]
    arrays += [value for _, value in values]
    schema = events_schema([(name, value.type) for name, value in values])
    return with_times(pa.RecordBatch.from_arrays(arrays, schema=schema), new_end)


def memberships_of(
    runs: Sequence[SortedRun], width: int, ids: Ids, low: Ints, high: Ints
) -> Members:
    """The events of some keys that meet or touch the stretches [low, high] of these."""
    next_number = np.zeros(len(ids), np.uint64)
    positions: list[Ints] = []
    owners = [np.empty(0, np.int64)]
    for run in runs:
        slices = Slices(run, ids)
        position, owner = positions_of(slices.low, slices.high)
        np.maximum.at(next_number, owner, column(run, NUMBER)[position] + np.uint64(1))
        near = slices.times[position] <= high[owner]
        near &= column(run, END)[position] >= low[owner]
        positions.append(position[near])
        owners.append(owner[near])
    owner = np.concatenate(owners)

    def values(name: str) -> np.ndarray:
        found = [
            column(run, name)[chosen_rows] for run, chosen_rows in zip(runs, positions, strict=True)
        ]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    start, end, count, number = (values(name) for name in (TIME, END, COUNT, NUMBER))
    number = number.view(np.uint64)
    kept, count = _add_up(owner, start, end, number, count)
    order = np.lexsort((number[kept], owner[kept]))
    first = is_first(owner[kept][order], number[kept][order])
    chosen = np.sort(kept[order[first]])
    row = np.empty(len(kept), np.int64)
    row[order] = np.searchsorted(chosen, kept[order[first]])[np.cumsum(first) - 1]
    parts, before = [], 0
    for run, chosen_rows in zip(runs, positions, strict=True):
        begin, stop = np.searchsorted(chosen, [before, before + len(chosen_rows)])
        parts.append(LazyPart.of(run.rows, width, chosen_rows[chosen[begin:stop] - before]))
        before += len(chosen_rows)
    return Members(
        owner=owner[kept],
        start=start[kept],
        end=end[kept],
        count=count,
        number=number[kept],
        row=row,
        parts=parts,
        whose=owner[chosen],
        next_number=next_number,
    )


def memberships_merger(stable: Time) -> Merge:
    """Merge runs without what was taken back or ended before the stable point."""

    def merge(runs: Sequence[SortedRun], whole: bool) -> pa.RecordBatch:
        del whole
        parts = []
        for run in runs:
            alive = column(run, END) >= stable
            parts.append(run.rows if alive.all() else run.rows.filter(pa.array(alive)))
        rows = pa.concat_batches(parts)
        ids, start, end, count, number = (
            rows.column(name).to_numpy() for name in (ID, TIME, END, COUNT, NUMBER)
        )
        order = merge_order(
            [(part.column(ID).to_numpy(), part.column(TIME).to_numpy()) for part in parts]
        )
        kept, left = _add_up(ids, start, end, number, count)
        count = np.zeros_like(count)
        count[kept] = left
        order = order[count[order] != 0]
        rows = rows.set_column(3, rows.schema.field(COUNT), pa.array(count)).take(pa.array(order))
        return with_times(rows, end[order])

    return merge


def _add_up(
    owner: Ids | Ints, start: Ints, end: Ints, number: Ids, count: Ints
) -> tuple[Ints, Ints]:
    """Events that are still there, and how many of each."""
    back = count < 0
    if not back.any():
        return np.arange(len(owner)), count
    mixed = (owner.view(np.uint64) * _ODD[0]) ^ (number * _ODD[1])
    wanted = np.sort(mixed[back])
    match = np.searchsorted(wanted, mixed)
    touched = np.append(wanted, 0)[match] == mixed
    rows, rest = np.flatnonzero(touched), np.flatnonzero(~touched)
    keys = (number[rows], end[rows], start[rows], owner[rows])
    order = np.lexsort(keys)
    first = np.flatnonzero(is_first(*(key[order] for key in keys)))
    sums = np.add.reduceat(count[rows[order]], first)
    left = sums != 0
    kept = np.concatenate([rest, rows[order[first[left]]]])
    return kept, np.concatenate([count[rest], sums[left]])
