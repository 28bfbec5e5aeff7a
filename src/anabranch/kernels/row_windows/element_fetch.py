"""The elements around changes, read from runs as far as they matter.

A change moves the ends of the R elements before it (R is the size of the window), and to know their
ends the R elements after it are needed. Of millions of elements of a group, 2R + 1 are read per
change.

The difficulty: the trace is several runs that are added up, so R rows of a run are not R elements.
A row may be netted out by a newer run, and the next element may be in another run. So each run is
read a number of rows to either side; the nearest unread row of *any* run bounds what is certain;
and where fewer than R certain elements are left, reach is multiplied by 4. Every element is then
certain or unread in all runs, so each chunk of certain elements has no gap. As reach quadruples,
all earlier readings together are at most a third of the last one.

Example: R = 2, one run with elements at 1, 2 ... 20, a change at 10. Read are 8, 9, 10, 11 and 12.
If a newer run had taken 8 and 9 away, reach to the left would become 8: read are 2 to 12, and 6 and
7 are the two elements before the change.

With a slide S > 1 every later element gets another number, so all elements after the change are
read; prefix sums of counts in each run (`SUM`) tell how many come before, without reading them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.grouped import Ids, Ints, Mask, is_first, is_last, positions_of
from anabranch.kernels.contract.column_names import SUM
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.row_windows.element_trace import ElementLayout
from anabranch.kernels.trace.runs import Slices, column
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import no_rows
from anabranch.model.time import BEGINNING, FOREVER

SKIP_FROM_ELEMENTS: Final = 64
"""Up to this many unchanged elements between two changes are read rather than skipped."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class FetchedElements:
    """Elements around changes, in chunks: within a chunk no element of the key is missing.

    Attributes:
        rows: What the runs hold there, run by run; what is of one run is in order.
        parts: How many rows are of each run.
        chunk: The chunk of each row.
        chunk_of: The chunk of each changed instant.
        ids: The key of each chunk.
        before: How many elements of the key are before each chunk, modulo the slide.
    """

    rows: pa.RecordBatch
    parts: Sequence[int]
    chunk: Ints
    chunk_of: Ints
    ids: Ids
    before: Ints


def fetch(
    runs: Sequence[SortedRun], layout: ElementLayout, ids: Ids, times: Ints
) -> FetchedElements:
    """The elements at changed instants (sorted, each once), and those around them that matter.

    With a slide of one these are as many to either side as the window holds. With a longer one
    they are those before the first change that are not gone yet, and all after it, as those get
    other numbers.

    An element found in one run may have been taken away in a newer one, so every run is read
    until enough elements are certain.
    """
    islands = _find_islands(runs, layout, ids, times)
    left, right = islands.left, islands.right
    while True:
        view = _read(runs, islands, left, right)
        left_ok = ~view.cut_before | (view.left >= islands.left)
        right_ok = ~view.cut_after | (view.right >= islands.right)
        if left_ok.all() and right_ok.all():
            break
        left, right = np.where(left_ok, left, _more(left)), np.where(right_ok, right, _more(right))
    parts = [run.rows.take(pa.array(rows)) for run, rows in zip(runs, view.rows, strict=True)]
    begins = ~islands.follows | view.cut_before
    chunk = np.cumsum(begins) - 1
    return FetchedElements(
        rows=pa.concat_batches([no_rows(layout.schema()), *parts]),
        parts=[part.num_rows for part in parts],
        chunk=chunk[view.owner],
        chunk_of=chunk[islands.of_instant],
        ids=islands.ids[begins],
        before=((islands.before - view.left) % layout.slide)[begins],
    )


def _more(reach: Ints) -> Ints:
    return np.asarray(np.minimum(np.maximum(reach, 1) * 4, 2**61))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _ReadRanges:
    """Stretches of time that are read whole.

    Attributes:
        ids: The key of each island; `follows` says that it is that of the island before.
        low, high: Its first and its last instant.
        of_instant: The island of each changed instant.
        slices: Per run, where the rows of the key are.
        begin, end: Per run, where the rows of the island are.
        before: How many elements of the key come before it.
        left, right: How many elements before and after it are needed.
    """

    ids: Ids
    follows: Mask
    low: Ints
    high: Ints
    of_instant: Ints
    slices: Sequence[Slices]
    begin: Sequence[Ints]
    end: Sequence[Ints]
    before: Ints
    left: Ints
    right: Ints


def _find_islands(
    runs: Sequence[SortedRun], layout: ElementLayout, ids: Ids, times: Ints
) -> _ReadRanges:
    """All from the first change of a key to its last, unless much lies between them unchanged."""
    begins = is_first(ids)
    if layout.slide == 1:
        coarse = _locate(runs, layout, begins, ids, times)
        between = np.zeros(len(coarse.ids), np.int64)
        for begin, end in zip(coarse.begin, coarse.end, strict=True):
            between += end - begin
        changed = np.bincount(coarse.of_instant, minlength=len(coarse.ids))
        crowded = between > SKIP_FROM_ELEMENTS + 2.0 * (layout.rows or 0) * changed
        if not crowded.any():
            return coarse
        begins |= crowded[coarse.of_instant]
    return _locate(runs, layout, begins, ids, times)


def _locate(
    runs: Sequence[SortedRun], layout: ElementLayout, begins: Mask, ids: Ids, times: Ints
) -> _ReadRanges:
    of_instant = np.cumsum(begins) - 1
    at, low = ids[begins], times[begins]
    to_the_end = layout.slide > 1
    high = np.full(len(at), FOREVER - 1) if to_the_end else times[is_last(of_instant)]
    slices = [Slices(run, at) for run in runs]
    begin = [part.at_or_after(low) for part in slices]
    end = [part.high if to_the_end else part.after(high) for part in slices]
    before = np.zeros(len(at), np.int64)
    if to_the_end:
        for run, part, first in zip(runs, slices, begin, strict=True):
            sums = column(run, SUM)
            for row, sign in ((first, 1), (part.low, -1)):
                before += sign * np.where(row > 0, sums[np.maximum(row, 1) - 1], 0)
    size = layout.rows or 0
    return _ReadRanges(
        ids=at,
        follows=~is_first(at),
        low=low,
        high=high,
        of_instant=of_instant,
        slices=slices,
        begin=begin,
        end=end,
        before=before,
        left=size + before % layout.slide,
        right=np.full(len(at), 0 if to_the_end else size),
    )


@final
@dataclass(frozen=True, slots=True, eq=False)
class _ElementView:
    """What was read: the rows of each run, the island of each, and how much is certain.

    Attributes:
        rows: Per run, the rows that are certain: none is missing between them and their island.
        owner: The island of each row, run by run.
        cut_before, cut_after: Whether rows before or after the island were left out.
        left, right: How many elements there are before and after the island.
    """

    rows: Sequence[Ints]
    owner: Ints
    cut_before: Mask
    cut_after: Mask
    left: Ints
    right: Ints


def _read(
    runs: Sequence[SortedRun], islands: _ReadRanges, reach_left: Ints, reach_right: Ints
) -> _ElementView:
    """Read islands, and so many rows of each run before and after them."""
    count = len(islands.ids)
    follows = islands.follows[1:]
    last_unread = np.full(count, np.int64(BEGINNING))
    first_unread = np.full(count, np.int64(FOREVER))
    ranges = []
    for part, begin, end in zip(islands.slices, islands.begin, islands.end, strict=True):
        limit, floor = part.high.copy(), part.low.copy()
        limit[:-1] = np.where(follows, begin[1:], limit[:-1])
        stop = np.minimum(end + reach_right, limit)
        floor[1:] = np.where(follows, stop[:-1], floor[1:])
        start = np.maximum(begin - reach_left, floor)
        limit[:-1] = np.where(follows, start[1:], limit[:-1])
        more = np.flatnonzero(start > floor)
        last_unread[more] = np.maximum(last_unread[more], part.times[start[more] - 1])
        more = np.flatnonzero(stop < limit)
        first_unread[more] = np.minimum(first_unread[more], part.times[stop[more]])
        ranges.append((start, stop))
    left, right = np.zeros(count, np.int64), np.zeros(count, np.int64)
    rows, owners = [], [np.empty(0, np.int64)]
    for run, part, (start, stop) in zip(runs, islands.slices, ranges, strict=True):
        positions, owner = positions_of(start, stop)
        times, counts = part.times[positions], column(run, COUNT)[positions]
        owner = _owners(islands, owner, times, last_unread, first_unread)
        certain = np.flatnonzero(owner >= 0)
        positions, owner, times, counts = (x[certain] for x in (positions, owner, times, counts))
        for total, outside in (
            (left, times < islands.low[owner]),
            (right, times > islands.high[owner]),
        ):
            np.add.at(total, owner[outside], counts[outside])
        rows.append(positions)
        owners.append(owner)
    return _ElementView(
        rows=rows,
        owner=np.concatenate(owners),
        cut_before=last_unread > BEGINNING,
        cut_after=first_unread < FOREVER,
        left=left,
        right=right,
    )


def _owners(
    islands: _ReadRanges, owner: Ints, times: Ints, last_unread: Ints, first_unread: Ints
) -> Ints:
    """The island to which a row is connected without a gap, or -1.

    A row between two islands may have been read for either; what counts is which side of the
    unread rows of all runs it is on.
    """
    previous = (times < islands.low[owner]) & (times <= last_unread[owner])
    following = (times > islands.high[owner]) & (times >= first_unread[owner])
    moved = owner - previous + following
    valid = np.clip(moved, 0, len(islands.ids) - 1)
    lost = (moved != valid) | (islands.ids[valid] != islands.ids[owner])
    lost |= previous & (times >= first_unread[valid])
    lost |= following & (times <= last_unread[valid])
    return np.where(lost, -1, valid)
