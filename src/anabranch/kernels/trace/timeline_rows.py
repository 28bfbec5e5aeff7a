"""The rows of a timeline in its runs: find those in and around a stretch, merge, forget.

The newest row of a key and time counts; a count of REMOVED takes an older row away. So runs are
layers, and the timeline is what is seen from above:

    run 0 (oldest)   10: n=1   20: n=2              30: n=0
    run 1                      20: removed  25: n=3
    timeline         10: n=1                25: n=3 30: n=0

What may be forgotten once the stable point is S (no move has an end before S any more):
- a row whose next row is before S: its segment is over;
- with the oldest run in the merge (`whole`), a removal, as nothing is left below it; a gap that is
  the last row of its key; a gap that has become the first row of its key.
A row that ends exactly at S stays, because a move from S on may still lengthen its segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    Mask,
    is_first,
    is_last,
    merge_order,
    next_marked,
    order_by_id_and_time,
)
from anabranch.kernels.contract.column_names import ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace.runs import (
    Merge,
    Slices,
    Trim,
    add_run,
    column,
    gather,
    take_ranges,
    with_times,
)
from anabranch.model.batch import no_rows
from anabranch.model.time import FOREVER, Time

COUNT: Final = "n"
REMOVED: Final = -1


def newest_rows(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One sorted batch out of several, oldest first: the newest row of a key and time counts."""
    rows = pa.concat_batches(list(parts)) if len(parts) > 1 else parts[0]
    ids, times = rows.column(ID).to_numpy(), rows.column(TIME).to_numpy()
    each = [(part.column(ID).to_numpy(), part.column(TIME).to_numpy()) for part in parts]
    order = merge_order(each)
    keep = order[is_last(ids[order], times[order])]
    return rows.take(pa.array(keep))


def fetch(
    runs: Sequence[SortedRun], schema: pa.Schema, ids: Ids, low: Ints, high: Ints
) -> tuple[pa.RecordBatch, Mask, Mask]:
    """Rows in the islands and their nearest neighbours; masks: is a predecessor, is inside.

    Islands are in order. A neighbour found in one run may have been taken away in a newer one; then
    every run is read until it reaches at least as far as the nearest neighbour that still stands.
    """
    near = [_around(run, ids, low, high) for run in runs]
    if not any(np.any(left < right) for _, _, left, right in near):
        none = np.empty(0, np.bool_)
        return no_rows(schema), none, none
    lefts, rights = [part[2] for part in near], [part[3] for part in near]
    found = _candidates(runs, lefts, rights, ids, low, high)
    if (found.rows.column(COUNT).to_numpy() == REMOVED).any():
        found = _look_further(runs, near, found, ids, low, high)
    return found.rows.take(pa.array(found.kept)), found.is_before, found.is_inside


def _around(run: SortedRun, ids: Ids, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Where the rows in each island begin and end, without and with one neighbour on each side."""
    held, times = column(run, ID), column(run, TIME)
    if columns.is_compiled(len(ids)):
        found: tuple[Ints, Ints, Ints, Ints] = columns.native().around(held, times, ids, low, high)
        return found
    slices = Slices(run, ids)
    start, stop = slices.at_or_after(low), slices.after(high)
    return start, stop, np.maximum(start - 1, slices.low), np.minimum(stop + 1, slices.high)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """Candidates, in the order of the runs: which of them count, and the nearest to each island."""

    rows: pa.RecordBatch
    kept: Ints
    is_before: Mask
    is_inside: Mask
    before: Ints
    after: Ints


def _candidates(
    runs: Sequence[SortedRun],
    lefts: Sequence[Ints],
    rights: Sequence[Ints],
    ids: Ids,
    low: Ints,
    high: Ints,
) -> _Candidates:
    parts, owners = [], []
    for run, left, right in zip(runs, lefts, rights, strict=True):
        rows, owner = take_ranges(run, left, right)
        if len(owner):
            parts.append(rows)
            owners.append(owner)
    rows = pa.concat_batches(parts)
    owner = np.concatenate(owners)
    times, counts = rows.column(TIME).to_numpy(), rows.column(COUNT).to_numpy()
    each = [
        (owner_part, part.column(TIME).to_numpy())
        for owner_part, part in zip(owners, parts, strict=True)
    ]
    resolve = columns.native().resolve if columns.is_compiled(len(times)) else _resolve
    return _Candidates(
        rows, *resolve(merge_order(each), owner, times, counts, REMOVED, ids, low, high)
    )


def _look_further(
    runs: Sequence[SortedRun],
    near: Sequence[tuple[Ints, Ints, Ints, Ints]],
    found: _Candidates,
    ids: Ids,
    low: Ints,
    high: Ints,
) -> _Candidates:
    slices = [Slices(run, ids) for run in runs]
    reach_left = np.ones(len(ids), np.int64)
    reach_right = np.ones(len(ids), np.int64)
    while True:
        lefts = [np.maximum(s[0] - reach_left, p.low) for s, p in zip(near, slices, strict=True)]
        rights = [np.minimum(s[1] + reach_right, p.high) for s, p in zip(near, slices, strict=True)]
        if (reach_left > 1).any() or (reach_right > 1).any():
            found = _candidates(runs, lefts, rights, ids, low, high)
        times = found.rows.column(TIME).to_numpy()
        limits = [p.low for p in slices], [p.high for p in slices]
        left_ok = _settled(found.before, times, lefts, limits[0], slices, left=True)
        right_ok = _settled(found.after, times, rights, limits[1], slices, left=False)
        if left_ok.all() and right_ok.all():
            return found
        reach_left = np.where(left_ok, reach_left, reach_left * 4)
        reach_right = np.where(right_ok, reach_right, reach_right * 4)


def _resolve(
    order: Ints,
    owner: Ints,
    times: Ints,
    counts: Ints,
    removed: int,
    ids: Ids,
    low: Ints,
    high: Ints,
) -> tuple[Ints, Mask, Mask, Ints, Ints]:
    """Of candidate rows, those in and next to islands; see `native.resolve` for large batches."""
    order = order[is_last(owner[order], times[order])]
    order = order[counts[order] != removed]
    island, when = owner[order], times[order]
    is_inside = (when >= low[island]) & (when <= high[island])
    before, after = (np.full(len(low), -1, np.int64) for _ in range(2))
    earlier, later = np.flatnonzero(when < low[island]), np.flatnonzero(when > high[island])
    before[island[earlier]] = order[earlier]  # ascending: the last one written is the nearest
    after[island[later[::-1]]] = order[later[::-1]]
    use = is_inside | (order == before[island]) | (order == after[island])
    order, island, is_inside = order[use], island[use], is_inside[use]
    is_before = order == before[island]
    # One row may serve several islands of its key: keep it once, with all its roles.
    again = order_by_id_and_time(ids[island], times[order])
    first = is_first(ids[island][again], times[order][again])
    group = np.cumsum(first) - 1
    roles = np.zeros((2, int(first.sum())), np.bool_)
    np.logical_or.at(roles[0], group, is_before[again])
    np.logical_or.at(roles[1], group, is_inside[again])
    return order[again[first]], roles[0], roles[1], before, after


def _settled(
    nearest: Ints,
    times: Ints,
    reached: Sequence[Ints],
    limits: Sequence[Ints],
    slices: Sequence[Slices],
    *,
    left: bool,
) -> Mask:
    """Whether the nearest neighbour of each island (a row, -1: none was seen) is certain."""
    has = nearest >= 0
    found = np.where(has, times[nearest], 0) if len(times) else np.zeros(len(nearest), np.int64)
    settled = np.ones(len(nearest), np.bool_)
    for edge, limit, part in zip(reached, limits, slices, strict=True):
        more = edge > limit if left else edge < limit
        if not more.any():
            continue
        seen = part.times[np.where(more, edge if left else edge - 1, 0)]
        far_enough = has & (seen <= found if left else seen >= found)
        settled &= ~more | far_enough
    return settled


def add_rows(
    runs: tuple[SortedRun, ...], fresh: pa.RecordBatch, stable: Time
) -> tuple[SortedRun, ...]:
    """Append rows that were written; forget what cannot matter after the stable point."""
    merge, trim = merger(stable), trimmer(stable)
    return add_run(runs, fresh, stable, merge, anchors=True, trim=trim)


def merger(stable: Time) -> Merge:
    """Merge runs of a timeline, without the rows that cannot matter after the stable point."""

    def merge(runs: Sequence[SortedRun], whole: bool) -> pa.RecordBatch:
        parts = [run.rows for run in runs]
        is_compiled = columns.is_compiled(sum(part.num_rows for part in parts))
        rows = _surviving(parts, stable, whole) if is_compiled else _merged(parts, stable, whole)
        return with_times(rows, rows.column(TIME).to_numpy())

    return merge


def _merged(parts: Sequence[pa.RecordBatch], stable: Time, whole: bool) -> pa.RecordBatch:
    rows = newest_rows(parts)
    ids, times = rows.column(ID).to_numpy(), rows.column(TIME).to_numpy()
    count = rows.column(COUNT).to_numpy()
    stands = count != REMOVED
    following = next_marked(stands, is_last(ids))
    until = np.where(following >= 0, times[following], np.int64(FOREVER))
    # A row ends where the next one begins; if that is the stable point, it may still grow.
    dead = stands & (until < stable)
    if whole:
        dead |= ~stands
        dead |= (count == 0) & (following < 0) & (times < stable)
        dead |= _leading_gaps(ids, count, dead)
    return rows.take(pa.array(np.flatnonzero(~dead)))


def _surviving(parts: Sequence[pa.RecordBatch], stable: Time, whole: bool) -> pa.RecordBatch:
    """The same in compiled loops."""
    native, schema = columns.native(), parts[0].schema
    each = [[part.column(name).to_numpy() for name in (ID, TIME, COUNT)] for part in parts]
    # What is over by its own run need not be merged; but what ends a row may itself be gone.
    uncertain = np.unique(np.concatenate([ids[counts == REMOVED] for ids, _, counts in each]))
    kept = [native.recent(ids, times, uncertain, int(stable)) for ids, times, _ in each]
    found = {
        name: gather([part.column(name) for part in parts], kept) for name in (ID, TIME, COUNT)
    }
    cuts = np.cumsum([0, *(len(rows) for rows in kept)])
    order = native.merge_order(found[ID], found[TIME], cuts)
    rows = native.survivors(
        order, found[ID], found[TIME], found[COUNT], int(stable), int(FOREVER), REMOVED, whole
    )
    arrays = []
    for name in schema.names:
        values = found.pop(name, None)
        if values is None:
            values = gather([part.column(name) for part in parts], kept)
        if isinstance(values, np.ndarray):
            arrays.append(pa.array(values[rows]))
        else:
            arrays.append(values.take(pa.array(rows)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def trimmer(stable: Time) -> Trim:
    """Leave out what a run holds of the past, without a merge.

    Of every key the last row before the stable point stays that no newer run takes away, its
    anchor: it, or what a newer run has in its place, holds at least from there on, so that
    nothing before it matters in any run. Where the anchor is a gap and nothing follows it in its
    run, it goes too, unless another run has a row of the key that it might put an end to.
    """

    def trim(runs: Sequence[SortedRun], index: int) -> pa.RecordBatch:
        rows = runs[index].rows
        if not columns.is_compiled(len(rows)):
            return rows
        native = columns.native()
        ids, times, counts = (rows.column(name).to_numpy() for name in (ID, TIME, COUNT))
        begins = np.append(0, np.flatnonzero(ids[1:] != ids[:-1]) + 1)
        gone, shared = np.zeros(len(ids), np.bool_), np.zeros(len(begins), np.bool_)
        for number, other in enumerate(runs):
            if number == index:
                continue
            low, high = native.slices(column(other, ID), ids[begins])
            found = column(other, TIME), column(other, COUNT), number > index
            met = native.meet(begins, times, low, high, *found, int(stable), REMOVED)
            gone |= met[0]
            shared |= met[1]
        kept = native.remaining(begins, times, counts, gone, shared, int(stable), REMOVED)
        arrays = [pa.array(gather([values], [kept])) for values in rows.columns]
        rest = pa.RecordBatch.from_arrays(arrays, schema=rows.schema)
        return with_times(rest, rest.column(TIME).to_numpy())

    return trim


def _leading_gaps(ids: Ids, count: Ints, dead: Mask) -> Mask:
    """Gaps that begin a key say nothing: before its first row a key is a gap anyway."""
    alive = ~dead
    positions = np.flatnonzero(alive)
    leading = np.zeros(len(ids), np.bool_)
    first = is_first(ids[positions])
    leading[positions[first & (count[positions] == 0)]] = True
    return leading


def live_rows(runs: Sequence[SortedRun]) -> int:
    """How many rows stand after all runs are merged (for tests and metrics)."""
    if not runs:
        return 0
    rows = newest_rows([run.rows for run in runs])
    return int(np.count_nonzero(rows.column(COUNT).to_numpy() != REMOVED))
