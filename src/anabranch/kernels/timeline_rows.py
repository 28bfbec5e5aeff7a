"""The rows of a timeline in its runs: find those in and around a stretch, merge, forget.

The newest row of a key and time counts; a count of REMOVED takes an older row away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.kernels import columns
from anabranch.kernels.columns import (
    Ids,
    Ints,
    Mask,
    is_first,
    is_last,
    merge_order,
    next_marked,
    order_by_id_and_time,
)
from anabranch.kernels.kernel import ID, Run
from anabranch.kernels.runs import TIME, Merge, Slices, take_ranges, with_times
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
    runs: Sequence[Run], schema: pa.Schema, ids: Ids, low: Ints, high: Ints
) -> tuple[pa.RecordBatch, Mask, Mask]:
    """Rows in the islands and their nearest neighbours; masks: is a predecessor, is inside.

    A neighbour found in one run may have been taken away in a newer one, so every run is read
    until it reaches at least as far as the nearest neighbour that still stands.
    """
    if not runs or not len(ids):
        none = np.empty(0, np.bool_)
        return no_rows(schema), none, none
    slices = [Slices(run, ids) for run in runs]
    starts = [part.at_or_after(low) for part in slices]
    stops = [part.after(high) for part in slices]
    reach_left = np.ones(len(ids), np.int64)
    reach_right = np.where(high == FOREVER, 0, 1).astype(np.int64)
    while True:
        lefts = [np.maximum(s - reach_left, p.low) for s, p in zip(starts, slices, strict=True)]
        rights = [np.minimum(s + reach_right, p.high) for s, p in zip(stops, slices, strict=True)]
        parts, owners = [], []
        for run, left, right in zip(runs, lefts, rights, strict=True):
            rows, owner = take_ranges(run, left, right)
            parts.append(rows)
            owners.append(owner)
        rows = pa.concat_batches(parts)
        owner = np.concatenate(owners)
        times = rows.column(TIME).to_numpy()
        each = [
            (some, part.column(TIME).to_numpy()) for some, part in zip(owners, parts, strict=True)
        ]
        counts = rows.column(COUNT).to_numpy()
        resolve = columns.native().resolve if len(times) >= columns.MANY else _resolve
        found, is_before, is_inside, before, after = resolve(
            merge_order(each), owner, times, counts, REMOVED, ids, low, high
        )
        limits = [p.low for p in slices], [p.high for p in slices]
        left_ok = _settled(before, times, lefts, limits[0], slices, left=True)
        right_ok = _settled(after, times, rights, limits[1], slices, left=False)
        right_ok |= high == FOREVER
        if left_ok.all() and right_ok.all():
            return rows.take(pa.array(found)), is_before, is_inside
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


def merger(stable: Time) -> Merge:
    """Merge runs of a timeline, without the rows that cannot matter after the stable point."""

    def merge(runs: Sequence[Run], whole: bool) -> pa.RecordBatch:
        rows = newest_rows(_without_the_past([run.rows for run in runs], stable))
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
        rows = rows.take(pa.array(np.flatnonzero(~dead)))
        return with_times(rows, rows.column(TIME).to_numpy())

    return merge


def _without_the_past(parts: Sequence[pa.RecordBatch], stable: Time) -> Sequence[pa.RecordBatch]:
    """Without rows that end before the stable point, as far as their own run tells.

    That holds only where no run takes rows away: else what ends a row may itself be gone.
    """
    if any((part.column(COUNT).to_numpy() == REMOVED).any() for part in parts):
        return parts
    kept = []
    for part in parts:
        ids, times = part.column(ID).to_numpy(), part.column(TIME).to_numpy()
        past = np.zeros(len(ids), np.bool_)
        past[:-1] = (ids[1:] == ids[:-1]) & (times[1:] < stable)
        kept.append(part.take(pa.array(np.flatnonzero(~past))) if past.any() else part)
    return kept


def _leading_gaps(ids: Ids, count: Ints, dead: Mask) -> Mask:
    """Gaps that begin a key say nothing: before its first row a key is a gap anyway."""
    alive = ~dead
    places = np.flatnonzero(alive)
    leading = np.zeros(len(ids), np.bool_)
    first = is_first(ids[places])
    leading[places[first & (count[places] == 0)]] = True
    return leading


def live_rows(runs: Sequence[Run]) -> int:
    """How many rows stand after all runs are merged (for tests and metrics)."""
    if not runs:
        return 0
    rows = newest_rows([run.rows for run in runs])
    return int(np.count_nonzero(rows.column(COUNT).to_numpy() != REMOVED))
