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
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.errors import EngineError
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.grouped import Ids, Ints, Mask, next_marked
from anabranch.kernels.columns.sum_lanes import SumLane
from anabranch.kernels.contract.column_names import CHECK, ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace.places import Places, endpoints, lane_at, weave
from anabranch.kernels.trace.runs import with_times
from anabranch.kernels.trace.timeline_rows import COUNT, REMOVED, add_rows, fetch
from anabranch.model.time import FOREVER, Time


@final
@dataclass(frozen=True, slots=True)
class Lanes:
    """The columns of a timeline: whole numbers, exact sums, and values kept as they are."""

    whole: tuple[str, ...] = (COUNT,)
    sums: tuple[SumLane, ...] = ()
    values: tuple[tuple[str, pa.DataType], ...] = ()
    checked: bool = False

    def schema(self) -> pa.Schema:
        """The columns of a run."""
        fields = [pa.field(ID, pa.uint64()), pa.field(TIME, pa.int64())]
        fields += [pa.field(name, pa.int64()) for name in self.whole]
        fields += [pa.field(name, kind) for each in self.sums for name, kind in each.fields()]
        fields += [pa.field(name, kind) for name, kind in self.values]
        if self.checked:
            fields.append(pa.field(CHECK, pa.uint64()))
        return pa.schema(fields)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of whole numbers, those of sums among them."""
        return (*self.whole, *(name for each in self.sums for name in each.limbs))

    def held(self, rows: pa.RecordBatch) -> dict[str, Ints]:
        """The whole numbers of some rows; of sums, all lanes that are in use."""
        found = {name: rows.column(name).to_numpy() for name in self.numbers}
        for each in self.sums:
            found |= each.unpacked(rows.column(each.rest))
        return found


@final
@dataclass(frozen=True, slots=True, eq=False)
class LaneMoves:
    """Moves of ends with what they weigh in each lane; `fresh` ones are of keys without any row.

    Of exact sums those lanes are there that some move needs.
    """

    ids: Ids
    end: Ints
    new_end: Ints
    whole: Mapping[str, Ints]
    check: Ids | None = None
    fresh: Mask | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class TimelineRevision:
    """A stretch of timelines before and after a batch, at every place where one has a row.

    `known` rows have their true neighbours in the arrays, so the segment that starts there is
    known; `touched` rows start a segment that the batch changed. `first`/`last` mark keys. `move`
    is the first move of the key. `old` and `new` have the same lanes.
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


def revise(runs: Sequence[SortedRun], lanes: Lanes, moves: LaneMoves) -> TimelineRevision:
    """Bring the touched stretches into the arrays, with whole numbers and sums revised."""
    ends, islands = endpoints(moves.ids, moves.end, moves.new_end)
    if moves.fresh is not None:
        islands = islands.take(np.flatnonzero(~moves.fresh[islands.move]))
    rows, before, inside = fetch(runs, lanes.schema(), islands.ids, islands.low, islands.high)
    held_ids, held_times = rows.column(ID).to_numpy(), rows.column(TIME).to_numpy()
    places = weave(held_ids, held_times, before | inside, ends)
    if lanes.checked:
        _refuse_collisions(rows, moves, places)
    held, weights = lanes.held(rows), dict(moves.whole)
    for each in lanes.sums:
        weights |= each.relieved(weights, len(moves.ids))
    old: dict[str, Ints] = {}
    new: dict[str, Ints] = {}
    done: list[tuple[Ints, Ints, str]] = []
    nothing, none = np.zeros(len(moves.ids), np.int64), np.zeros(rows.num_rows, np.int64)
    # Lanes of sums that only some rows need are there by chance: in one order all the same.
    for name in (*lanes.numbers, *sorted((weights.keys() | held) - {*lanes.numbers})):
        weight, was = weights.get(name, nothing), held.get(name, none)
        # Lanes are often all alike: nothing is NULL, or all numbers are whole.
        same = next((n for w, b, n in done if _alike(w, weight) and _alike(b, was)), None)
        if same is not None:
            old[name], new[name] = old[same], new[same].copy()
            continue
        done.append((weight, was, name))
        old[name], new[name] = lane_at(was, weight, places)
    for each in lanes.sums:
        new = _carried(each, old, new)
    return TimelineRevision(
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
        rows=rows,
        end_place=places.end,
        new_end_place=places.new_end,
        held_place=places.held,
        move=places.move,
        check=moves.check,
    )


def _alike(one: Ints, other: Ints) -> bool:
    if one is other:
        return True
    # Lanes that differ do so soon, as a rule.
    return np.array_equal(one[:64], other[:64]) and np.array_equal(one, other)


def _carried(each: SumLane, old: dict[str, Ints], new: dict[str, Ints]) -> dict[str, Ints]:
    """The revised lanes with a sum in its one form; both have the lanes that either needs."""
    carried = each.carried(new)
    gone = {name: np.zeros_like(new[name]) for name in each.named(each.outside(new))}
    found = {**new, **gone, **carried}
    for lanes in (old, found):
        lanes.pop(each.relief, None)
    for name in [name for name in found if name not in old]:
        old[name] = np.zeros(len(found[name]), np.int64)
    return found


def _refuse_collisions(rows: pa.RecordBatch, moves: LaneMoves, places: Places) -> None:
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
    runs: tuple[SortedRun, ...],
    lanes: Lanes,
    revision: TimelineRevision,
    new_values: Mapping[str, pa.Array],
    values_differ: Mask,
    values_changed: Mask,
    stable: Time,
) -> tuple[tuple[SortedRun, ...], Mask]:
    """Write what changed, and say where the revised timelines have rows.

    `values_differ` marks places whose value lanes are not those of the place before (where both
    belong to one key), `values_changed` those whose value lanes are not what they were; the other
    lanes are compared here.
    """
    new_row = boundaries(revision, values_differ)
    changed = new_row & revision.old_row & (values_changed | _changed(revision))
    written = (new_row & ~revision.old_row) | changed
    removed = revision.old_row & ~new_row
    places = np.flatnonzero(written | removed)
    gone = removed[places]
    arrays: list[pa.Array] = [pa.array(revision.ids[places]), pa.array(revision.times[places])]
    here = {name: lane[places] for name, lane in revision.new.items()}
    here[COUNT] = np.where(gone, REMOVED, here[COUNT])
    arrays += [pa.array(here[name]) for name in lanes.whole]
    for each in lanes.sums:
        arrays += [pa.array(here[name]) for name in each.limbs]
        arrays.append(each.packed(here, len(places)))
    for name, _ in lanes.values:
        arrays.append(new_values[name].take(pa.array(places)))
    if lanes.checked:
        assert revision.check is not None
        arrays.append(pa.array(revision.check[revision.move[places]]))
    fresh = pa.RecordBatch.from_arrays(arrays, schema=lanes.schema())
    fresh = with_times(fresh, revision.times[places])
    return add_rows(runs, fresh, stable), new_row


def boundaries(revision: TimelineRevision, differs: Mask) -> Mask:
    """Where the revised timelines have rows: places whose lanes are not those before them."""
    different = differs.copy()
    for values in revision.new.values():
        different[1:] |= values[1:] != values[:-1]
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


def _changed(revision: TimelineRevision) -> Mask:
    changed = np.zeros(len(revision.ids), np.bool_)
    for name, was in revision.old.items():
        changed |= was != revision.new[name]
    return changed
