"""Weigh what a window holds at the instants of a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.time_window import UNBOUNDED
from anabranch.algebra.weighted_window import WeightedWindow
from anabranch.errors import StreamError
from anabranch.kernels.columns.grouped import Ints, positions_of
from anabranch.kernels.contract.kernel import Stateless
from anabranch.kernels.stateless.time_window import MOST_LAYERS
from anabranch.model.batch import EventBatch
from anabranch.model.identity import Identity
from anabranch.model.time import BEGINNING, FOREVER, Time, TimeArray, add_saturating


class _Weighed(NamedTuple):
    """Stretches of time on which a row has one weight."""

    row: Ints
    begin: TimeArray
    end: TimeArray
    weight: Ints


@final
@dataclass(frozen=True, slots=True)
class WeightedWindowKernel(Stateless):
    """Weights of lifetimes in a window, without state.

    At the grid instant V the window shows the occurrences in (c - w, c], where c is the last
    instant that counts at V. Of a lifetime [s, e) these are

        n(c) = min(c + 1, e) - max(c - w + 1, s)

    which rises with c up to m = min(w, e - s), stays, and falls to 0. So a lifetime has one row per
    grid instant on which it rises or falls, at most 2 m / step + 2, and one for the time between.
    Example: [0, 30) under w = 60, slide 10: weights 10, 20 from 9 and 19, 30 from 29 up to 69, then
    20 and 10.

    A move of an end withdraws the old rows and inserts the new ones; what is equal cancels out. As
    n(c) does not depend on the end before c reaches it, nothing before the moved end is touched.
    Only the rows of one adjust are compared with each other: hashing and sorting the payloads of
    all rows, to find equal ones in the whole batch, took longer than all the rest.
    """

    identity: ClassVar[Identity] = Identity("WeightedWindowKernel", ("node",))

    node: WeightedWindow

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """The payload and the weight."""
        return self.node.schema

    def promise(self, stable: Time) -> Time:
        """That of the node."""
        return self.node.promise(stable)

    def interest(self, end: Time, side: int = 0) -> Time:
        """What holds longest is shown almost a window, a slide and a granule later."""
        del side
        if self.node.size == UNBOUNDED:
            return BEGINNING
        back = self.node.size - 1 + self.node.slide - 1 + self.node.granule - 1
        return Time(max(end - back, BEGINNING))

    def apply(self, batch: EventBatch) -> EventBatch:
        """Row by row where events come or go whole; else inserts first, then what adjusts change.

        An adjust may follow the insert of its event, and so the withdrawal may follow the adjust.
        """
        moved = batch.end != batch.new_end
        fresh = batch.end == batch.start
        if fresh.all():
            come = self._weighed(batch, batch.new_end, moved)
            return self._rows(batch, come, come.begin, come.end)
        if (fresh | (batch.new_end == batch.start)).all():
            found = self._weighed(batch, np.maximum(batch.end, batch.new_end), moved)
            comes = fresh[found.row]
            old = np.where(comes, found.begin, found.end)
            return self._rows(batch, found, old, np.where(comes, found.end, found.begin))
        come = self._weighed(batch, batch.new_end, moved & fresh)
        inserts = self._rows(batch, come, come.begin, come.end)
        adjusts = moved & ~fresh
        gone = self._weighed(batch, batch.end, adjusts)
        come = self._weighed(batch, batch.new_end, adjusts & (batch.new_end > batch.start))
        both, old, new = _paired(gone, come)
        return EventBatch.concat([inserts, self._rows(batch, both, old, new)])

    def _rows(
        self, batch: EventBatch, weighed: _Weighed, old: TimeArray, new: TimeArray
    ) -> EventBatch:
        payload = batch.take(weighed.row).payload
        # Columns that nobody reads may be missing.
        fields = [*payload.schema, pa.field(self.node.weight, pa.int64())]
        columns = [*payload.columns, pa.array(weighed.weight)]
        rows = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        return EventBatch(rows, weighed.begin, old, new, batch.stable)

    def _weighed(self, batch: EventBatch, end: TimeArray, there: np.ndarray) -> _Weighed:
        row = np.flatnonzero(there)
        start, end = batch.start[row], end[row]
        size = np.int64(self.node.size)
        # Lengths from one end of time to the other exceed int64; they count as endless.
        length = end.view(np.uint64) - start.view(np.uint64)
        length = np.minimum(length, np.uint64(FOREVER)).astype(np.int64)
        endless = (end == FOREVER) | (size == FOREVER)
        length = np.where(end == FOREVER, np.int64(FOREVER), length)
        shorter, longer = np.minimum(length, size), np.maximum(length, size)
        until = np.where(endless, np.int64(FOREVER), add_saturating(start, longer))
        # The numbers of the grid instants at which it appears, is full, falls, and is gone.
        first, falls = self._number(start), self._number(until)
        if len(row) and shorter.max() == 1:
            # Points: what appears is full, what falls is gone.
            kept = np.flatnonzero(falls > first)
            begin, after = self._instant(first[kept]), self._instant(falls[kept])
            return _stretches(row[kept], begin, after, shorter[kept])
        full = self._number(add_saturating(start, shorter - 1))
        gone = self._number(add_saturating(until, shorter - 1))
        self._refuse_too_many([full - first, gone - falls])
        none = np.zeros(len(row), np.int64)
        risen, rising = positions_of(none, full - first)
        fallen, falling = positions_of(none, gone - falls)
        flat = np.flatnonzero(falls > full)
        up, down = first[rising] + risen, falls[falling] + fallen
        piece = np.concatenate([rising, flat, falling])
        begin = np.concatenate([up, full[flat], down])
        after = np.concatenate([up + 1, falls[flat], down + 1])
        counted = self._last(begin)
        upper = np.minimum(add_saturating(counted, 1), end[piece])
        weight = upper - np.maximum(_before(counted, size), start[piece])
        weight[len(up) : len(up) + len(flat)] = shorter[flat]
        found = _stretches(row[piece], self._instant(begin), self._instant(after), weight)
        return _digits(found) if self.node.powers else found

    def _number(self, times: TimeArray) -> TimeArray:
        """The number of the first grid instant that counts a time, or comes after it."""
        slide, granule = np.int64(self.node.slide), np.int64(self.node.granule)
        # The multiples of a granule, but the last chronons of slides: k g, and k a - 1.
        if granule == 1:
            return np.floor_divide(times, slide) + 1
        up = times if slide == 1 else add_saturating(times, (slide - 1) - np.mod(times, slide))
        return np.floor_divide(up, granule) + (np.mod(up, granule) > 0)

    def _instant(self, numbers: TimeArray) -> TimeArray:
        """The grid instant with a number; FOREVER where time ends before it."""
        granule = np.int64(self.node.granule)
        step = granule if granule > 1 else np.int64(self.node.slide)
        last = np.int64(FOREVER) // step
        found = np.minimum(numbers, last) * step - (0 if granule > 1 else 1)
        return np.where(numbers > last, np.int64(FOREVER), found)

    def _last(self, numbers: TimeArray) -> TimeArray:
        """The last instant whose occurrences count at a grid instant."""
        slide, granule = np.int64(self.node.slide), np.int64(self.node.granule)
        instant = self._instant(numbers)
        if granule == 1 or slide == 1:
            return instant
        return np.floor_divide(instant + 1, slide) * slide - 1

    def _refuse_too_many(self, counts: list[TimeArray]) -> None:
        if float(sum(count.astype(np.float64).sum() for count in counts)) > MOST_LAYERS:
            several = max(int(count.max(initial=0)) for count in counts)
            raise StreamError(
                f"a lifetime is in {several} windows with different weights",
                where=self.label,
                hint="use a longer SLIDE or a coarser GRANULARITY",
            )


def _stretches(row: Ints, begin: TimeArray, end: TimeArray, weight: Ints) -> _Weighed:
    """Those that last, and weigh something."""
    found = _Weighed(row, begin, end, weight)
    keep = (begin < end) & (weight > 0)
    return found if keep.all() else _Weighed(*(each[keep] for each in found))


def _paired(gone: _Weighed, come: _Weighed) -> tuple[_Weighed, TimeArray, TimeArray]:
    """Stretches that adjusts end or begin, and from where to where each end moves.

    A stretch of `gone` and one of `come` with the same row, begin and weight are one whose end
    moves; within `gone`, and within `come`, no two are equal in these. Where the end stays, too,
    there is nothing to say.
    """
    both = _Weighed(*(np.concatenate(each) for each in zip(gone, come, strict=True)))
    is_come = np.arange(len(both.row)) >= len(gone.row)
    old, new = np.where(is_come, both.begin, both.end), np.where(is_come, both.end, both.begin)
    if not len(come.row):
        return both, old, new
    # A stable sort puts what goes before what comes.
    order = np.lexsort((both.weight, both.begin, both.row))
    both = _Weighed(*(each[order] for each in both))
    old, new, is_come = old[order], new[order], is_come[order]
    again = np.zeros(len(order), np.bool_)
    again[1:] = is_come[1:] & ~is_come[:-1]
    for each in (both.row, both.begin, both.weight):
        again[1:] &= each[1:] == each[:-1]
    second = np.flatnonzero(again)
    new[second - 1] = new[second]
    keep = np.flatnonzero(~again & (old != new))
    return _Weighed(*(each[keep] for each in both)), old[keep], new[keep]


def _before(counted: TimeArray, size: np.int64) -> TimeArray:
    """The first instant in a window that ends with an instant; never before all time."""
    if int(size) == FOREVER:
        return np.full(len(counted), np.int64(BEGINNING))
    least = np.int64(BEGINNING) + size
    return np.where(counted < least, np.int64(BEGINNING), counted - (size - 1))


def _digits(found: _Weighed) -> _Weighed:
    """The same weights as powers of two: 13 is 8 + 4 + 1."""
    highest = int(found.weight.max()).bit_length() if len(found.row) else 0
    rows = [np.flatnonzero(found.weight >> np.int64(digit) & 1) for digit in range(highest)]
    weight = [np.full(len(members), np.int64(1) << digit) for digit, members in enumerate(rows)]
    row = np.concatenate([np.empty(0, np.int64), *rows])
    return _Weighed(
        found.row[row],
        found.begin[row],
        found.end[row],
        np.concatenate([np.empty(0, np.int64), *weight]),
    )
