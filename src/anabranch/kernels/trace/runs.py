"""Sorted immutable runs: look up ranges of keys and times, add, merge now and then.

A trace is a tuple of runs, oldest first, each sorted by (id, time). The same id and time may be in
every run; what that means is the business of the merge function (the newest row counts in a
timeline, counts are added up in a trace of events). A step appends one run, so a lookup costs
one search per run and their number must stay small; merging costs copies, so it must be rare.

Both hold because runs are merged in groups of `SIMILAR_RUNS` = 3 of similar size: a row is copied
only into a run that is at least about twice as long as the one it was in, so about log2(steps)
times. With equal steps of 10,000 rows (in units of steps):

    after     30 steps   runs 26, 3, 1             a row was copied 3.4 times
    after    100 steps   runs 95, 5                                 5.2 times
    after  1,000 steps   runs 907, 69, 19, 5                        7.8 times
    after  3,000 steps   runs 2385, 476, 131, 7, 1                  8.8 times, never above 7 runs

Rows before the stable point are forgotten when runs are merged, and earlier by a trim: each run
carries 17 quantiles of its times in the metadata of its schema, so how much of it has expired is
estimated without a look at its rows. An estimate decides only when to work, never what stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.grouped import Ids, Ints, is_identity, positions_of
from anabranch.kernels.contract.column_names import ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.model.time import FOREVER, Time

MERGE_ALL_UP_TO_ROWS: Final = 4_096
"""Traces up to this many rows are merged whole at every step: cheap, and nothing expired stays."""

SIMILAR_RUNS: Final = 3
"""This many runs of similar size are merged; similar: at most this many times as long."""

MOST_RUNS: Final = 6
"""This many runs are merged even where some of them are too short to count as similar."""

TIMES: Final = b"anabranch.times"
_QUANTILES: Final = 16
SPREAD_SAMPLE_ROWS: Final = 4_096
"""About this many rows of a run are sampled for the quantiles of its times."""


def column(run: SortedRun, name: str) -> np.ndarray:
    """A column without nulls, as numpy, without a copy."""
    values: np.ndarray = run.rows.column(name).to_numpy(zero_copy_only=True)
    return values


def search(times: Ints, low: Ints, high: Ints, target: Ints, *, after_equal: bool) -> Ints:
    """Binary search in many slices [low, high) of one column at once.

    Gives the first position whose time is >= target (> target with `after_equal`). All slices are
    halved in the same numpy pass, so it takes log2(longest slice) passes however many slices there
    are.

    >>> times, low, high = np.array([1, 5, 9, 2, 5]), np.array([0, 3]), np.array([3, 5])
    >>> search(times, low, high, np.array([5, 5]), after_equal=False).tolist()
    [1, 4]
    >>> search(times, low, high, np.array([5, 5]), after_equal=True).tolist()
    [2, 5]
    """
    if columns.is_compiled(len(low)):
        return np.asarray(columns.native().search(times, low, high, target, after_equal))
    low, high = low.copy(), high.copy()
    while True:
        open_ = np.flatnonzero(low < high)
        if not len(open_):
            return low
        middle = (low[open_] + high[open_]) >> 1
        seen, wanted = times[middle], target[open_]
        below = seen <= wanted if after_equal else seen < wanted
        low[open_] = np.where(below, middle + 1, low[open_])
        high[open_] = np.where(below, high[open_], middle)


def slices(held: Ids, ids: Ids) -> tuple[Ints, Ints]:
    """Where the rows of each id begin and end in a sorted column."""
    if columns.is_compiled(len(ids)):
        found: tuple[Ints, Ints] = columns.native().slices(held, ids)
        return found
    return np.searchsorted(held, ids, side="left"), np.searchsorted(held, ids, side="right")


class Slices:
    """The ranges [low, high) of rows of given keys in one run."""

    __slots__ = ("high", "low", "times")

    def __init__(self, run: SortedRun, ids: Ids, *, time: str = TIME) -> None:
        """Find the rows of each id (ids may repeat)."""
        held = column(run, ID)
        self.times: Ints = column(run, time)
        self.low: Ints
        self.high: Ints
        self.low, self.high = slices(held, ids)

    def at_or_after(self, times: Ints) -> Ints:
        """First row of each key with a time >= the given one."""
        return search(self.times, self.low, self.high, times, after_equal=False)

    def after(self, times: Ints) -> Ints:
        """First row of each key with a time > the given one."""
        return search(self.times, self.low, self.high, times, after_equal=True)


def take_ranges(run: SortedRun, starts: Ints, stops: Ints) -> tuple[pa.RecordBatch, Ints]:
    """The rows in the ranges, and to which range each belongs."""
    positions, owner = positions_of(starts, stops)
    if len(positions) == len(run) and is_identity(positions):
        return run.rows, owner
    return run.rows.take(pa.array(positions)), owner


def gather(parts: Sequence[pa.Array], positions: Sequence[Ints]) -> np.ndarray | pa.Array:
    """Values at positions of each part, concatenated: as numpy if they are plain numbers."""
    kind = parts[0].type
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not plain or any(part.null_count for part in parts):
        taken = [part.take(pa.array(rows)) for part, rows in zip(parts, positions, strict=True)]
        return pa.concat_arrays(taken)
    # Positions are in range by construction; `clip` spares numpy's check of each before it copies.
    if len(parts) == 1:
        return np.asarray(parts[0].to_numpy().take(positions[0], mode="clip"))
    values = [part.to_numpy() for part in parts]
    result = np.empty(sum(map(len, positions)), values[0].dtype)
    first = 0
    for part, rows in zip(values, positions, strict=True):
        part.take(rows, out=result[first : first + len(rows)], mode="clip")
        first += len(rows)
    return result


def with_times(rows: pa.RecordBatch, times: Ints, per_key: int = 1) -> pa.RecordBatch:
    """Note quantiles of the times of a run in its schema, to estimate its expired share later.

    `per_key` is how many rows of a key are needed however old they are: in a timeline the last row
    before the stable point is still in force.
    """
    if not len(times):
        return rows
    sample = np.sort(times[:: 1 + len(times) // SPREAD_SAMPLE_ROWS])
    spread = sample[np.arange(_QUANTILES + 1) * (len(sample) - 1) // _QUANTILES]
    ids = rows.column(ID).to_numpy()
    ends = np.flatnonzero(ids[1:] != ids[:-1])
    anchors = len(ends) + 1
    if per_key > 1:
        sizes = np.diff(ends, prepend=-1, append=len(times) - 1)
        anchors = int(np.minimum(sizes, per_key).sum())
    # As `json.dumps` writes it, in a tenth of the time.
    note = f'{{"spread": {spread.tolist()}, "ids": {anchors}}}'
    return rows.replace_schema_metadata({TIMES: note})


def noted_times(run: SortedRun) -> tuple[list[int], int]:
    """Quantiles of the times of a run, and how many rows are needed however old they are."""
    note = (run.rows.schema.metadata or {}).get(TIMES)
    if note is None:
        return [], 0
    spread = json.loads(note)
    return spread["spread"], spread["ids"]


def expired_rows(run: SortedRun, stable: Time, *, anchors: bool) -> int:
    """About how many rows of a run lie before the stable point and cannot matter any more.

    With `anchors`, some rows of each key are needed however old they are.
    """
    spread, ids = noted_times(run)
    share = sum(time < stable for time in spread) / (_QUANTILES + 1)
    return max(0, int(share * len(run)) - (ids if anchors else 0))


Merge = Callable[[Sequence[SortedRun], bool], pa.RecordBatch]
"""Merges adjacent runs, oldest first; the flag says that no older run remains."""


Trim = Callable[[Sequence[SortedRun], int], pa.RecordBatch]
"""The rows that still matter of the run at an index, given all runs."""


def add_run(
    runs: tuple[SortedRun, ...],
    fresh: pa.RecordBatch,
    stable: Time,
    merge: Merge,
    *,
    anchors: bool,
    trim: Trim | None = None,
) -> tuple[SortedRun, ...]:
    """Append what a step wrote, and merge runs of similar size so that sizes grow geometrically.

    Work per step is proportional to the rows added times log2(steps), on average over many steps. A
    run is trimmed when 2/5 of it have expired. Everything is merged when the trace is small or when
    3/5 of it have expired; then the merge drops more than it copies, so it pays for itself.
    """
    all_runs = (*runs, SortedRun(fresh)) if fresh.num_rows else runs
    over = stable == FOREVER  # nothing comes any more: only what never ends is left
    if trim is not None and not over and sum(map(len, all_runs)) > MERGE_ALL_UP_TO_ROWS:
        all_runs = _trimmed(all_runs, stable, trim, anchors=anchors)
    total = sum(map(len, all_runs))
    if not total:
        return ()
    expired = sum(expired_rows(run, stable, anchors=anchors) for run in all_runs)
    keep = len(all_runs)
    if (
        over
        or expired * 5 >= total * 3
        or (total <= MERGE_ALL_UP_TO_ROWS and (fresh.num_rows or expired))
    ):
        keep = 0
    elif fresh.num_rows:
        keep = _runs_to_keep([len(run) for run in all_runs])
    if keep and keep >= len(all_runs) - 1:
        return all_runs
    merged = merge(all_runs[keep:], keep == 0)
    return (*all_runs[:keep], SortedRun(merged)) if merged.num_rows else all_runs[:keep]


def _trimmed(
    runs: tuple[SortedRun, ...], stable: Time, trim: Trim, *, anchors: bool
) -> tuple[SortedRun, ...]:
    """Trim runs of which an estimated 2/5 have expired; each sees the others trimmed."""
    kept = list(runs)
    for index in reversed(range(len(runs))):
        expired = expired_rows(runs[index], stable, anchors=anchors)
        if expired * 5 >= len(runs[index]) * 2:
            rows = trim(kept, index)
            if rows.num_rows < len(runs[index]):
                kept[index] = SortedRun(rows)
    return tuple(run for run in kept if len(run))


def _runs_to_keep(sizes: Sequence[int]) -> int:
    """How many of the oldest runs stay as they are when the rest are merged.

    From the newest run backwards: a run joins while it is at most three times as long as all newer
    ones together. Three or more such runs are merged, and then the longer result is tried again.

    >>> _runs_to_keep([9_000, 1_000, 1_000]), _runs_to_keep([9_000, 1_000, 1_000, 1_000])
    (3, 0)
    >>> _runs_to_keep([90_000, 1_000, 1_000, 1_000])
    1
    """
    keep, newer = len(sizes), 0
    oldest = keep
    while oldest:
        # Runs older than this one that are not much longer than the merge result so far.
        similar = oldest
        total = newer
        while similar and sizes[similar - 1] <= SIMILAR_RUNS * max(total, sizes[-1]):
            similar -= 1
            total += sizes[similar]
        # What is left of a trimmed run is short and expires soon: it does not count as similar.
        large = sum(size * SIMILAR_RUNS >= sizes[-1] for size in sizes[similar:])
        few = large < SIMILAR_RUNS and len(sizes) - similar < MOST_RUNS
        if few or similar == oldest:
            break
        keep = oldest = similar
        newer = total
    return keep
