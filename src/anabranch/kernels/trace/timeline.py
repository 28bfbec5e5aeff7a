"""Values that hold over time, per key: revise them where something changed, nowhere else.

A trace of a timeline has rows `(id, time, lanes...)`: from `time` on, up to the next row of the
key, the lanes have these values. Lane `n` counts what is there; 0 is a gap, and -1 takes an older
row of the same key and time away. The newest row of a key and time counts.

A move of an end adds its weight from `end` to `new_end`, so a batch touches *islands* of time.
Only rows in an island, and one neighbour to each side, are read, compared and written
(spec: the multiplicity sweep of PIPES, restricted to what a batch can change).

Invariants of a stored timeline, per key and after the newest row of each time is chosen:
- neighbouring rows differ in some lane (else the later one would be no change), and the first
  row is no gap, as before its first row a key has nothing;
- a row at FOREVER is never written: nothing holds from there on.

Why one neighbour to each side is enough: a move changes the function between its ends only. The row
before an island says what was in force when it begins, and whether the first row of the island is
still a change; the row behind it says where the last segment ends.

Example, one key, lane `n` alone. Stored is 1 from 10, 2 from 20, 0 from 30 on; a move of weight 1
goes from 12 to 25, so [12, 25] is the island, 10 the row before and 30 the row behind:

    breakpoint    10  12  20  25  30
    n before       1   1   2   2   0
    n after        1   2   3   2   0
    written            2   3   2          a new run of three rows; 10 and 30 stay as they are
    segments sent  [10, 20) ends at 12 now; [12, 20) is new; [20, 30) is withdrawn, and
                   [20, 25) and [25, 30) take over

If then a move takes [20, 30) away again, 20 has the value of 12: a row with n = -1 is written
there.

Cost of a step: the rows in and next to the islands, times the number of runs for the lookup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.errors import EngineError
from anabranch.kernels.columns.grouped import Ids, Ints, Mask, next_marked
from anabranch.kernels.columns.sum_lanes import SumLane
from anabranch.kernels.contract.column_names import CHECK, ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace.breakpoints import Breakpoints, endpoints, lane_at, weave
from anabranch.kernels.trace.runs import with_times
from anabranch.kernels.trace.timeline_rows import COUNT, REMOVED, add_rows, fetch
from anabranch.model.time import FOREVER, Time


@final
@dataclass(frozen=True, slots=True)
class Lanes:
    """The columns of a timeline: whole numbers, exact sums, and values that are not added up.

    Attributes:
        whole: Lanes of whole numbers.
        sums: Exact sums.
        values: Names and types of values.
        checked: Whether there is a second hash of the key.
        added: Those of the values that runs of earlier versions lack: NULL there.
    """

    whole: tuple[str, ...] = (COUNT,)
    sums: tuple[SumLane, ...] = ()
    values: tuple[tuple[str, pa.DataType], ...] = ()
    checked: bool = False
    added: tuple[str, ...] = ()

    def schema(self) -> pa.Schema:
        """The columns of a run."""
        fields = [pa.field(ID, pa.uint64()), pa.field(TIME, pa.int64())]
        fields += [pa.field(name, pa.int64()) for name in self.whole]
        fields += [pa.field(name, kind) for each in self.sums for name, kind in each.fields()]
        fields += [pa.field(name, kind) for name, kind in self.values]
        if self.checked:
            fields.append(pa.field(CHECK, pa.uint64()))
        return pa.schema(fields)

    def first_schema(self) -> pa.Schema:
        """The columns that runs of all versions have."""
        return pa.schema([field for field in self.schema() if field.name not in self.added])

    def completed(self, runs: tuple[SortedRun, ...]) -> tuple[SortedRun, ...]:
        """Runs with all columns; those that an earlier version did not write are NULL."""
        if not self.added:
            return runs
        return tuple(self._completed(run) for run in runs)

    def _completed(self, run: SortedRun) -> SortedRun:
        names = set(run.rows.schema.names)
        if names.issuperset(self.added):
            return run
        schema = self.schema().with_metadata(run.rows.schema.metadata)
        columns = [
            run.rows.column(field.name) if field.name in names else pa.nulls(len(run), field.type)
            for field in schema
        ]
        return SortedRun(pa.RecordBatch.from_arrays(columns, schema=schema), run.name)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of whole numbers, those of sums among them."""
        return (*self.whole, *(name for each in self.sums for name in each.limbs))

    def held(self, rows: pa.RecordBatch) -> dict[str, Ints]:
        """The whole numbers of rows by lane; of sums, all lanes that are in use."""
        found = {name: rows.column(name).to_numpy() for name in self.numbers}
        for each in self.sums:
            found |= each.unpacked(rows.column(each.rest))
        return found


@final
@dataclass(frozen=True, slots=True, eq=False)
class LaneMoves:
    """Moves of ends with their weight in each lane.

    `fresh` moves are of keys without any stored row, so no run is searched for them. Of exact sums
    only those lanes are present that at least one move needs.
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
    """The touched part of timelines before and after a batch, with one entry per breakpoint.

    `complete`, `touched`, `first`, `last` and `move` are those of `Breakpoints`; `old` and `new`
    have the same lanes. `rows` are the stored rows that were read; `old_source` is the one in
    force.
    """

    ids: Ids
    times: Ints
    first: Mask
    last: Mask
    complete: Mask
    touched: Mask
    old_row: Mask
    old_source: Ints
    old: Mapping[str, Ints]
    new: dict[str, Ints]
    rows: pa.RecordBatch
    end_index: Ints
    new_end_index: Ints
    held_index: Ints
    move: Ints
    check: Ids | None

    @property
    def low_index(self) -> Ints:
        """The breakpoint where the stretch of each move begins."""
        return np.minimum(self.end_index, self.new_end_index)

    @property
    def high_index(self) -> Ints:
        """The breakpoint where the stretch of each move ends."""
        return np.maximum(self.end_index, self.new_end_index)

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
    """Read the touched parts of timelines; add the weights of moves to their lanes."""
    ends, islands = endpoints(moves.ids, moves.end, moves.new_end)
    if moves.fresh is not None:
        islands = islands.take(np.flatnonzero(~moves.fresh[islands.move]))
    rows, before, inside = fetch(runs, lanes.schema(), islands.ids, islands.low, islands.high)
    held_ids, held_times = rows.column(ID).to_numpy(), rows.column(TIME).to_numpy()
    points = weave(held_ids, held_times, before | inside, ends)
    if lanes.checked:
        _refuse_collisions(rows, moves, points)
    held, weights = lanes.held(rows), dict(moves.whole)
    for each in lanes.sums:
        weights |= each.relieved(weights, len(moves.ids))
    old: dict[str, Ints] = {}
    new: dict[str, Ints] = {}
    done: list[tuple[Ints, Ints, str]] = []
    nothing, none = np.zeros(len(moves.ids), np.int64), np.zeros(rows.num_rows, np.int64)
    # Which further lanes of sums are present depends on the rows; sorted, their order does not.
    for name in (*lanes.numbers, *sorted((weights.keys() | held) - {*lanes.numbers})):
        weight, was = weights.get(name, nothing), held.get(name, none)
        # Lanes are often equal (nothing is NULL; all numbers are whole): compute equal ones once.
        same = next((n for w, b, n in done if _alike(w, weight) and _alike(b, was)), None)
        if same is not None:
            old[name], new[name] = old[same], new[same].copy()
            continue
        done.append((weight, was, name))
        old[name], new[name] = lane_at(was, weight, points)
    for each in lanes.sums:
        new = _carried(each, old, new)
    return TimelineRevision(
        ids=points.ids,
        times=points.times,
        first=points.first,
        last=points.last,
        complete=points.complete,
        touched=points.touched,
        old_row=points.old_row,
        old_source=points.source,
        old=old,
        new=new,
        rows=rows,
        end_index=points.end_index,
        new_end_index=points.new_end_index,
        held_index=points.held_index,
        move=points.move,
        check=moves.check,
    )


def _alike(one: Ints, other: Ints) -> bool:
    if one is other:
        return True
    # Lanes that differ do so in the first rows as a rule: spare the full comparison.
    return np.array_equal(one[:64], other[:64]) and np.array_equal(one, other)


def _carried(each: SumLane, old: dict[str, Ints], new: dict[str, Ints]) -> dict[str, Ints]:
    """Bring a revised sum into its normal form; old and new get the lanes that either needs.

    A sum has many digit vectors but one normal form; only in that form do equal sums have equal
    lanes.
    """
    carried = each.carried(new)
    gone = {name: np.zeros_like(new[name]) for name in each.named(each.outside(new))}
    found = {**new, **gone, **carried}
    for lanes in (old, found):
        lanes.pop(each.relief, None)
    for name in [name for name in found if name not in old]:
        old[name] = np.zeros(len(found[name]), np.int64)
    return found


def _refuse_collisions(rows: pa.RecordBatch, moves: LaneMoves, points: Breakpoints) -> None:
    """Compare a second hash: two keys with one id are found, never mixed."""
    assert moves.check is not None
    same = (moves.check[points.move[points.end_index]] == moves.check).all()
    held = rows.column(CHECK).to_numpy()
    if not same or not (moves.check[points.move[points.held_index]] == held).all():
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
    """Write what changed; also return which breakpoints are rows of the revised timelines.

    `values_differ` marks breakpoints whose value lanes differ from those of the breakpoint before
    (where both belong to one key), `values_changed` those whose value lanes differ from what they
    were; the other lanes are compared here.
    """
    new_row = boundaries(revision, values_differ)
    changed = new_row & revision.old_row & (values_changed | _changed(revision))
    written = (new_row & ~revision.old_row) | changed
    removed = revision.old_row & ~new_row
    rows_written = np.flatnonzero(written | removed)
    gone = removed[rows_written]
    arrays: list[pa.Array] = [
        pa.array(revision.ids[rows_written]),
        pa.array(revision.times[rows_written]),
    ]
    here = {name: lane[rows_written] for name, lane in revision.new.items()}
    here[COUNT] = np.where(gone, REMOVED, here[COUNT])
    arrays += [pa.array(here[name]) for name in lanes.whole]
    for each in lanes.sums:
        arrays += [pa.array(here[name]) for name in each.limbs]
        arrays.append(each.packed(here, len(rows_written)))
    for name, _ in lanes.values:
        arrays.append(new_values[name].take(pa.array(rows_written)))
    if lanes.checked:
        assert revision.check is not None
        arrays.append(pa.array(revision.check[revision.move[rows_written]]))
    fresh = pa.RecordBatch.from_arrays(arrays, schema=lanes.schema())
    fresh = with_times(fresh, revision.times[rows_written])
    return add_rows(runs, fresh, stable), new_row


def boundaries(revision: TimelineRevision, differs: Mask) -> Mask:
    """The breakpoints that are rows of the revised timelines: their lanes differ from those before.

    Only in and right behind what a move covers can that change. The first breakpoint of a key is
    a row unless it is a gap. Rows that are not complete border on what was not read, so they stay.
    """
    different = differs.copy()
    for values in revision.new.values():
        different[1:] |= values[1:] != values[:-1]
    first, count = revision.first, revision.new[COUNT]
    different = np.where(first, count != 0, different)
    free = revision.complete & (revision.times != FOREVER)
    inside = revision.touched.copy()
    inside[1:] |= revision.touched[:-1] & ~first[1:]
    # Outside the islands nothing changed: a breakpoint is a row there if it was one.
    return np.where(inside, different & free, revision.old_row)


def _changed(revision: TimelineRevision) -> Mask:
    changed = np.zeros(len(revision.ids), np.bool_)
    for name, was in revision.old.items():
        changed |= was != revision.new[name]
    return changed
