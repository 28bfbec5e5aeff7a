"""Values that hold over time, per key: revise them where something changed, nowhere else.

A trace of a timeline has rows `(id, time, lanes...)`: from `time` on, up to the next row of the
key, the lanes have these values. Lane `n` counts what is there; 0 is a gap, and -1 takes an older
row of the same key and time away. The newest row of a key and time counts.

A move of an end adds its weight from `end` to `new_end`, so a batch touches *islands* of time.
Only rows in an island, and one neighbour to each side, are read, compared and written
(spec: the multiplicity sweep of PIPES, restricted to what a batch can change).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.errors import EngineError
from anabranch.kernels import columns
from anabranch.kernels.columns import (
    Double,
    Ids,
    Ints,
    Mask,
    add_doubles,
    group_double_sums,
    group_starts,
    group_sums,
    is_first,
    is_last,
    last_marked,
    merge_order,
    next_marked,
    order_by_id_and_time,
)
from anabranch.kernels.kernel import ID, Run
from anabranch.kernels.runs import TIME, add_run, with_times
from anabranch.kernels.timeline_rows import COUNT, REMOVED, fetch, merger
from anabranch.model.time import FOREVER, Time

CHECK: Final = "__check"


@final
@dataclass(frozen=True, slots=True)
class Lanes:
    """The columns of a timeline: whole numbers, doubled floats, and values kept as they are."""

    whole: tuple[str, ...] = (COUNT,)
    doubled: tuple[str, ...] = ()
    values: tuple[tuple[str, pa.DataType], ...] = ()
    checked: bool = False

    def schema(self) -> pa.Schema:
        """The columns of a run."""
        fields = [pa.field(ID, pa.uint64()), pa.field(TIME, pa.int64())]
        fields += [pa.field(name, pa.int64()) for name in self.whole]
        for name in self.doubled:
            fields += [
                pa.field(f"{name}.high", pa.float64()),
                pa.field(f"{name}.low", pa.float64()),
            ]
        fields += [pa.field(name, kind) for name, kind in self.values]
        if self.checked:
            fields.append(pa.field(CHECK, pa.uint64()))
        return pa.schema(fields)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Moves of ends with what they weigh in each lane."""

    ids: Ids
    end: Ints
    new_end: Ints
    whole: Mapping[str, Ints]
    doubled: Mapping[str, Double]
    check: Ids | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Revision:
    """A stretch of timelines before and after a batch, at every place where one has a row.

    `known` rows have their true neighbours in the arrays, so the segment that starts there is
    known; `touched` rows start a segment that the batch changed. `first`/`last` mark keys. `move`
    is the number of a move of the key.
    """

    ids: Ids
    times: Ints
    first: Mask
    last: Mask
    known: Mask
    touched: Mask
    old_row: Mask
    old_source: Ints
    old: Mapping[str, Ints]
    new: dict[str, Ints]
    old_doubled: Mapping[str, Double]
    new_doubled: dict[str, Double]
    rows: pa.RecordBatch
    low_place: Ints
    high_place: Ints
    move: Ints
    check: Ids | None

    def old_values(self, name: str) -> pa.Array:
        """A value lane as it was, with null where nothing was there."""
        return take_or_null(self.rows.column(name), self.old_source)

    def next_times(self, marked: Mask) -> Ints:
        """For every row the time of the next marked row of its key, or FOREVER."""
        following = next_marked(marked, self.last)
        return np.where(following >= 0, self.times[following], np.int64(FOREVER))


def take_or_null(values: pa.Array, positions: Ints) -> pa.Array:
    """Values at positions; a negative position gives null."""
    return values.take(pa.array(positions, mask=positions < 0))


def islands(ids: Ids, times: Ints, change: Ints) -> tuple[Ids, Ints, Ints]:
    """The stretches of time that moves cover, per key: ids, first and last instants.

    Given are the ends of all moves by key and time, with +1 where a move begins to cover, -1
    where it ceases, 0 where it goes nowhere.
    """
    if len(ids) >= columns.MANY:
        found: tuple[Ids, Ints, Ints] = columns.native().islands(ids, times, change)
        return found
    first = is_first(ids)
    cover = group_sums(change, group_starts(first))
    begins = first.copy()
    begins[1:] |= (cover[:-1] == 0) & (times[1:] != times[:-1])
    ends = np.append(begins[1:], True) if len(begins) else begins
    return ids[begins], times[begins], times[ends]


def revise(runs: Sequence[Run], lanes: Lanes, moves: Moves) -> Revision:
    """Bring the touched stretches into the arrays, with the whole and doubled lanes revised."""
    moved = len(moves.ids)
    moved_ids = np.concatenate([moves.ids, moves.ids])
    moved_times = np.concatenate([moves.end, moves.new_end])
    by_key = order_by_id_and_time(moved_ids, moved_times)
    moved_ids, moved_times = moved_ids[by_key], moved_times[by_key]
    grows = (moves.new_end > moves.end).astype(np.int64) - (moves.new_end < moves.end)
    cover = np.concatenate([grows, -grows])[by_key]
    rows, before, inside = fetch(runs, lanes.schema(), *islands(moved_ids, moved_times, cover))
    held_ids, held_times = rows.column(ID).to_numpy(), rows.column(TIME).to_numpy()
    held = len(held_ids)
    merged = merge_order([(held_ids, held_times), (moved_ids, moved_times)])
    order = np.concatenate([np.arange(held), by_key + held])[merged]
    all_ids = np.concatenate([held_ids, moved_ids])[merged]
    all_times = np.concatenate([held_times, moved_times])[merged]
    at, times, starts, place, touched, old_row, known, source, move = _sweep(
        all_ids, all_times, order, before | inside, moves
    )
    length = len(at)
    first, last = is_first(at), is_last(at)
    held_place, end_place, new_end_place = np.split(place, [held, held + moved])
    low_place = np.minimum(end_place, new_end_place)
    high_place = np.maximum(end_place, new_end_place)
    check = _check(rows, moves, starts, held_place, end_place) if lanes.checked else None

    old: dict[str, Ints] = {}
    new: dict[str, Ints] = {}
    done: list[tuple[Ints, Ints, str]] = []
    for name in lanes.whole:
        weight, before = moves.whole[name], rows.column(name).to_numpy()
        # Lanes are often all alike: nothing is NULL, NaN or infinite.
        same = next((n for w, b, n in done if _alike(w, weight) and _alike(b, before)), None)
        if same is not None:
            old[name], new[name] = old[same], new[same].copy()
            continue
        done.append((weight, before, name))
        old[name] = _filled(before, source)
        if not weight.any():
            new[name] = old[name].copy()
            continue
        delta = np.zeros(length, np.int64)
        np.add.at(delta, end_place, weight)
        np.subtract.at(delta, new_end_place, weight)
        new[name] = old[name] + np.where(touched, group_sums(delta, starts), 0)
    in_order = order[order >= held] - held if lanes.doubled else order
    old_doubled: dict[str, Double] = {}
    new_doubled: dict[str, Double] = {}
    for name in lanes.doubled:
        was = (
            _filled(rows.column(f"{name}.high").to_numpy(), source),
            _filled(rows.column(f"{name}.low").to_numpy(), source),
        )
        change = _double_sums(moves.doubled[name], place[held:], in_order, starts)
        old_doubled[name] = was
        total = add_doubles(was, change)
        new_doubled[name] = (
            np.where(touched, total[0], was[0]),
            np.where(touched, total[1], was[1]),
        )
    return Revision(
        ids=at,
        times=times,
        first=first,
        last=last,
        known=known,
        touched=touched,
        old_row=old_row,
        old_source=source,
        old=old,
        new=new,
        old_doubled=old_doubled,
        new_doubled=new_doubled,
        rows=rows,
        low_place=low_place,
        high_place=high_place,
        move=move,
        check=check,
    )


def _sweep(
    ids: Ids, times: Ints, order: Ints, sure: Mask, moves: Moves
) -> tuple[Ids, Ints, Ints, Ints, Mask, Mask, Mask, Ints, Ints]:
    """Places out of sorted entries; see `native.sweep`, which does it for large batches."""
    if len(order) >= columns.MANY:
        swept: tuple[Ids, Ints, Ints, Ints, Mask, Mask, Mask, Ints, Ints] = columns.native().sweep(
            ids, times, order, sure, moves.end, moves.new_end, int(FOREVER)
        )
        return swept
    held, moved = len(sure), len(moves.ids)
    first_here = is_first(ids, times)
    place = np.empty(len(order), np.int64)
    place[order] = np.cumsum(first_here) - 1
    at, when = ids[first_here], times[first_here]
    first = is_first(at)
    starts = group_starts(first)
    held_place, end_place, new_end_place = np.split(place, [held, held + moved])
    cover = np.zeros(len(at), np.int64)
    np.add.at(cover, np.minimum(end_place, new_end_place), 1)
    np.add.at(cover, np.maximum(end_place, new_end_place), -1)
    touched = (group_sums(cover, starts) > 0) & (when != FOREVER)
    old_row = np.zeros(len(at), np.bool_)
    old_row[held_place] = True
    known = np.zeros(len(at), np.bool_)
    known[held_place[sure]] = True
    known[end_place] = True
    known[new_end_place] = True
    row_at = np.full(len(at), -1, np.int64)
    row_at[held_place] = np.arange(held)
    marked = last_marked(old_row, starts)
    source = np.where(marked >= 0, row_at[marked], -1) if len(at) else marked
    some = np.zeros(len(at), np.int64)
    some[starts[end_place]] = np.arange(moved)
    return at, when, starts, place, touched, old_row, known, source, some[starts]


def _alike(one: Ints, other: Ints) -> bool:
    return one is other or np.array_equal(one, other)


def _filled(values: np.ndarray, source: Ints) -> np.ndarray:
    if not len(values):
        return np.zeros(len(source), values.dtype)
    return np.where(source >= 0, values[source], values.dtype.type(0))


def _double_sums(weight: Double, places: Ints, order: Ints, starts: Ints) -> Double:
    """Running sums per key, at every place, of weights that begin and end at places.

    `places` are those where weights begin, then those where they end; `order` sorts them.
    """
    length = len(starts)
    high = np.concatenate([weight[0], -weight[0]])
    low = np.concatenate([weight[1], -weight[1]])
    places = places[order]
    sums = group_double_sums((high[order], low[order]), group_starts(is_first(starts[places])))
    final = is_last(places)
    marked = np.zeros(length, np.bool_)
    marked[places[final]] = True
    result = []
    for part in sums:
        values = np.zeros(length)
        values[places[final]] = part[final]
        source = last_marked(marked, starts)
        result.append(np.where(source >= 0, values[source], 0.0))
    return result[0], result[1]


def _check(
    rows: pa.RecordBatch, moves: Moves, starts: Ints, held_place: Ints, end_place: Ints
) -> Ids:
    """The second hash at every place; two keys under one id are found, never mixed."""
    assert moves.check is not None
    of_key = np.zeros(len(starts), np.uint64)
    of_key[starts[end_place]] = moves.check
    same = (of_key[starts[end_place]] == moves.check).all()
    same = same and (of_key[starts[held_place]] == rows.column(CHECK).to_numpy()).all()
    if not same:
        raise _collision()
    return of_key[starts]


def _collision() -> EngineError:
    return EngineError(
        "two different keys have the same 64-bit hash",
        where="a keyed operator",
        hint="please report this with the query; until then add a column to the grouping",
    )


def settle(
    runs: tuple[Run, ...],
    lanes: Lanes,
    revision: Revision,
    new_values: Mapping[str, pa.Array],
    values_differ: Mask,
    values_changed: Mask,
    stable: Time,
) -> tuple[tuple[Run, ...], Mask]:
    """Write what changed, and say where the revised timelines have rows.

    `values_differ` marks places whose value lanes are not those of the place before (where both
    belong to one key), `values_changed` those whose value lanes are not what they were; the other
    lanes are compared here.
    """
    new_row = boundaries(revision, lanes, values_differ)
    changed = new_row & revision.old_row & (values_changed | _changed(revision, lanes))
    written = (new_row & ~revision.old_row) | changed
    removed = revision.old_row & ~new_row
    places = np.flatnonzero(written | removed)
    gone = removed[places]
    arrays: list[pa.Array] = [pa.array(revision.ids[places]), pa.array(revision.times[places])]
    for name in lanes.whole:
        values = revision.new[name][places]
        arrays.append(pa.array(np.where(gone, REMOVED, values) if name == COUNT else values))
    for name in lanes.doubled:
        arrays += [pa.array(part[places]) for part in revision.new_doubled[name]]
    for name, _ in lanes.values:
        arrays.append(new_values[name].take(pa.array(places)))
    if lanes.checked:
        assert revision.check is not None
        arrays.append(pa.array(revision.check[places]))
    fresh = pa.RecordBatch.from_arrays(arrays, schema=lanes.schema())
    fresh = with_times(fresh, revision.times[places])
    return add_run(runs, fresh, stable, merger(stable), anchors=True), new_row


def boundaries(revision: Revision, lanes: Lanes, differs: Mask) -> Mask:
    """Where the revised timelines have rows: places whose lanes are not those before them."""
    different = differs.copy()
    for name in lanes.whole:
        values = revision.new[name]
        different[1:] |= values[1:] != values[:-1]
    for name in lanes.doubled:
        for part in revision.new_doubled[name]:
            different[1:] |= part[1:] != part[:-1]
    first = revision.first
    different[first] = revision.new[COUNT][first] != 0
    free = revision.known & (revision.times != FOREVER)
    inside = revision.touched.copy()
    inside[1:] |= revision.touched[:-1] & ~first[1:]
    # Rows outside the islands were not touched: they stand as they were.
    return np.where(inside, different & free, revision.old_row)


def _changed(revision: Revision, lanes: Lanes) -> Mask:
    changed = np.zeros(len(revision.ids), np.bool_)
    for name in lanes.whole:
        changed |= revision.old[name] != revision.new[name]
    for name in lanes.doubled:
        for was, now in zip(revision.old_doubled[name], revision.new_doubled[name], strict=True):
            changed |= was != now
    return changed
