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
    is_first,
    is_last,
    last_marked,
    next_marked,
)
from anabranch.kernels.kernel import ID, Run
from anabranch.kernels.places import Places, endpoints, filled, lane_at, weave
from anabranch.kernels.runs import TIME, with_times
from anabranch.kernels.timeline_rows import COUNT, REMOVED, add_rows, fetch
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
    """Moves of ends with what they weigh in each lane; `fresh` ones are of keys without any row."""

    ids: Ids
    end: Ints
    new_end: Ints
    whole: Mapping[str, Ints]
    doubled: Mapping[str, Double]
    check: Ids | None = None
    fresh: Mask | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Revision:
    """A stretch of timelines before and after a batch, at every place where one has a row.

    `known` rows have their true neighbours in the arrays, so the segment that starts there is
    known; `touched` rows start a segment that the batch changed. `first`/`last` mark keys. `move`
    is the first move of the key.
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
    end_place: Ints
    new_end_place: Ints
    held_place: Ints
    move: Ints
    check: Ids | None

    @property
    def low_place(self) -> Ints:
        """Where the stretch of each move begins."""
        return np.minimum(self.end_place, self.new_end_place)

    @property
    def high_place(self) -> Ints:
        """Where it ends."""
        return np.maximum(self.end_place, self.new_end_place)

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


def revise(runs: Sequence[Run], lanes: Lanes, moves: Moves) -> Revision:
    """Bring the touched stretches into the arrays, with the whole and doubled lanes revised."""
    ends, islands = endpoints(moves.ids, moves.end, moves.new_end)
    if moves.fresh is not None:
        islands = islands.take(np.flatnonzero(~moves.fresh[islands.move]))
    rows, before, inside = fetch(runs, lanes.schema(), islands.ids, islands.low, islands.high)
    held_ids, held_times = rows.column(ID).to_numpy(), rows.column(TIME).to_numpy()
    places = weave(held_ids, held_times, before | inside, ends)
    if lanes.checked:
        _refuse_collisions(rows, moves, places)
    old: dict[str, Ints] = {}
    new: dict[str, Ints] = {}
    done: list[tuple[Ints, Ints, str]] = []
    for name in lanes.whole:
        weight, held = moves.whole[name], rows.column(name).to_numpy()
        # Lanes are often all alike: nothing is NULL, NaN or infinite.
        same = next((n for w, b, n in done if _alike(w, weight) and _alike(b, held)), None)
        if same is not None:
            old[name], new[name] = old[same], new[same].copy()
            continue
        done.append((weight, held, name))
        old[name], new[name] = lane_at(held, weight, places)
    old_doubled: dict[str, Double] = {}
    new_doubled: dict[str, Double] = {}
    starts = group_starts(places.first) if lanes.doubled else places.source
    for name in lanes.doubled:
        was = (
            filled(rows.column(f"{name}.high").to_numpy(), places.source),
            filled(rows.column(f"{name}.low").to_numpy(), places.source),
        )
        both = np.concatenate([places.end, places.new_end])
        change = _double_sums(moves.doubled[name], both, ends.entries, starts)
        old_doubled[name] = was
        total = add_doubles(was, change)
        new_doubled[name] = (
            np.where(places.touched, total[0], was[0]),
            np.where(places.touched, total[1], was[1]),
        )
    return Revision(
        ids=places.ids,
        times=places.times,
        first=places.first,
        last=places.last,
        known=places.known,
        touched=places.touched,
        old_row=places.old_row,
        old_source=places.source,
        old=old,
        new=new,
        old_doubled=old_doubled,
        new_doubled=new_doubled,
        rows=rows,
        end_place=places.end,
        new_end_place=places.new_end,
        held_place=places.held,
        move=places.move,
        check=moves.check,
    )


def _alike(one: Ints, other: Ints) -> bool:
    return one is other or np.array_equal(one, other)


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


def _refuse_collisions(rows: pa.RecordBatch, moves: Moves, places: Places) -> None:
    """By a second hash, two keys under one id are found, never mixed."""
    assert moves.check is not None
    same = (moves.check[places.move[places.end]] == moves.check).all()
    held = rows.column(CHECK).to_numpy()
    if not same or not (moves.check[places.move[places.held]] == held).all():
        raise _collision()


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
        arrays.append(pa.array(revision.check[revision.move[places]]))
    fresh = pa.RecordBatch.from_arrays(arrays, schema=lanes.schema())
    fresh = with_times(fresh, revision.times[places])
    return add_rows(runs, fresh, stable), new_row


def boundaries(revision: Revision, lanes: Lanes, differs: Mask) -> Mask:
    """Where the revised timelines have rows: places whose lanes are not those before them."""
    different = differs.copy()
    for name in lanes.whole:
        values = revision.new[name]
        different[1:] |= values[1:] != values[:-1]
    for name in lanes.doubled:
        for part in revision.new_doubled[name]:
            different[1:] |= part[1:] != part[:-1]
    first, count = revision.first, revision.new[COUNT]
    if columns.is_compiled(len(first)):
        return np.asarray(
            columns.native().boundaries(
                different,
                first,
                count,
                revision.known,
                revision.touched,
                revision.old_row,
                revision.times,
                int(FOREVER),
            )
        )
    different = np.where(first, count != 0, different)
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
