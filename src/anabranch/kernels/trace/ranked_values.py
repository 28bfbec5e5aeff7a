"""Neighbours in the order of values that are no numbers: texts, bytes and long decimals.

Runs are those of `ranked_events`, sorted by id and value; there is no column of codes. A value is
found in a run by halving, with one comparison of values per step, and what lies beside it is read
and ranked among itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.kernels.columns.families import STATISTICS
from anabranch.kernels.columns.grouped import Ids, Ints, Mask, is_first
from anabranch.kernels.columns.value_order import bytes_of, codes_of, has_short_offsets
from anabranch.kernels.contract.column_names import END, ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace import ranked_events
from anabranch.kernels.trace.ranked_events import (
    VALUE,
    Asked,
    answered_between,
    stepped,
)
from anabranch.kernels.trace.runs import slices, take_ranges
from anabranch.kernels.trace.timeline_rows import COUNT

FIRST_VALUES: Final = 8
"""How many rows of a run are read at first beside a value that has no code."""

_NO_IDS: Final = np.empty(0, np.uint64)
_NO_INTS: Final = np.empty(0, np.int64)
_NO_OFFSETS: Final = np.zeros(1, np.int32)
_NO_BYTES: Final = np.empty(0, np.uint8)
_LEAST: Final = np.int64(-(2**63))
_MOST: Final = np.int64(2**63 - 1)


def search_values(
    values: pa.Array, low: Ints, high: Ints, wanted: pa.Array, after_equal: Mask
) -> Ints:
    """Binary search in many slices [low, high) of an ascending column, for one value in each.

    Gives the first position whose value is >= the wanted one (> where `after_equal` is set).

    >>> column, low, high = pa.array(["a", "b", "b", "a"]), np.array([0, 0, 3]), np.array([3, 3, 4])
    >>> wanted, after = pa.array(["b", "b", "b"]), np.array([False, True, True])
    >>> search_values(column, low, high, wanted, after).tolist()
    [1, 3, 4]
    """
    low, high = low.copy(), high.copy()
    while True:
        open_ = np.flatnonzero(low < high)
        if not len(open_):
            return low
        middle = (low[open_] + high[open_]) >> 1
        seen, target = values.take(pa.array(middle)), wanted.take(pa.array(open_))
        below = pc.less(seen, target).to_numpy(zero_copy_only=False)
        if after_equal.any():
            not_above = pc.less_equal(seen, target).to_numpy(zero_copy_only=False)
            below = np.where(after_equal[open_], not_above, below)
        low[open_] = np.where(below, middle + 1, low[open_])
        high[open_] = np.where(below, high[open_], middle)


def walk_values(
    runs: Sequence[SortedRun], asked: Asked, cuts: pa.Array
) -> tuple[pa.Array, Ints, Ints]:
    """The values that are asked for, and how many alive ones are smaller, smaller or equal.

    It is `ranked_events.walk` for values without codes. Here `cut` is a position in `cuts`; with
    `up` the answer is larger than the value there, without it smaller, and `base` of the alive
    values do not lie on the side of the answer or beyond it.

    Of every run a few rows beside the value are read, and eight times as many where that was not
    enough. What was read gets codes, and with them it is walked through as numbers are. A range of
    codes counts as far as all runs were read: where a run goes on, it ends before the last value
    that was read of it, since more of these may follow.

    Example: from "k" upwards, two rows of each run are read. One has "l", "p" and goes on, the
    other one has "m", "x" and ends: known are "l" and "m", but not what lies between "p" and "x".
    """
    found, source, below, upto, left = _stepped_texts(runs, asked, cuts)
    if not len(left):
        return pa.concat_arrays(found).take(pa.array(source)), below, upto
    origins, own = _origins(runs, asked.take(left), cuts)
    origin_of = np.empty(len(asked.ids), np.int64)
    origin_of[left] = own
    width, answers = FIRST_VALUES, sum(map(len, found))
    while len(left):
        chosen, whose = np.unique(origin_of[left], return_inverse=True)
        read = _read_beside(runs, origins.take(chosen), width)
        open_ = asked.take(left)
        open_ = replace(open_, cut=read.cut[whose] + open_.up)
        low = np.where(open_.up, open_.cut, read.least[whose] + 1)
        high = np.where(open_.up, read.most[whose], open_.cut) - 1
        code, below_, upto_, rest = stepped(read.runs, open_)
        done = np.ones(len(left), np.bool_)
        done[rest] = False
        # Beyond what was read of all runs there may be more.
        done &= (code >= low) & (code <= high)
        rest = np.flatnonzero(~done)
        if len(rest):
            there, *beyond = answered_between(
                read.runs, open_.take(rest), low[rest], high[rest], read.ended[whose][rest]
            )
            rest = rest[there]
            code[rest], below_[rest], upto_[rest] = beyond
            done[rest] = True
        answered = left[done]
        below[answered], upto[answered] = below_[done], upto_[done]
        found.append(read.values_of(code[done]))
        source[answered] = answers + np.arange(len(answered))
        answers += len(answered)
        left = left[~done]
        width *= 8
    return pa.concat_arrays(found).take(pa.array(source)), below, upto


def _stepped_texts(
    runs: Sequence[SortedRun], asked: Asked, cuts: pa.Array
) -> tuple[list[pa.Array], Ints, Ints, Ints, Ints]:
    """Texts that compiled loops find within `STEP_ROWS` rows, and which questions are left.

    Gives arrays of texts, and of each question where its answer is in all of these.
    """
    found = [pa.array([], cuts.type)]
    source, below, upto = np.zeros((3, len(asked.ids)), np.int64)
    loops = STATISTICS.loops(len(asked.ids)) if has_short_offsets(cuts.type) else None
    if loops is None or len(runs) > loops.RUNS:
        return found, source, below, upto, np.arange(len(source))
    columns: list[tuple[np.ndarray, ...]] = []
    texts = [bytes_of(run.rows.column(VALUE)) for run in runs]
    missing = loops.RUNS - len(runs)
    columns.append(tuple([run.rows.column(ID).to_numpy() for run in runs] + [_NO_IDS] * missing))
    columns.append(tuple([offsets for offsets, _ in texts] + [_NO_OFFSETS] * missing))
    columns.append(tuple([data for _, data in texts] + [_NO_BYTES] * missing))
    for name in (TIME, END, COUNT):
        held = [run.rows.column(name).to_numpy() for run in runs]
        columns.append(tuple(held + [_NO_INTS] * missing))
    run_of, row_of, below, upto, is_open = loops.step_to_text(
        len(runs), *columns, asked.ids, asked.times, asked.index, asked.cut, *bytes_of(cuts),
        asked.base, asked.up, ranked_events.STEP_ROWS,
    )  # fmt: skip
    before = 0
    for number, run in enumerate(runs):
        own = np.flatnonzero((run_of == number) & ~is_open)
        found.append(run.rows.column(VALUE).take(pa.array(row_of[own])))
        source[own] = before + np.arange(len(own))
        before += len(own)
    return found, source, below, upto, np.flatnonzero(is_open)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Origins:
    """Where questions begin: a value of a key, and the direction of the answer.

    Attributes:
        ids: The keys, ascending.
        up: Whether the answers are larger.
        values: What the answers lie beside.
        slices: Per run, where the rows of the key begin, where the value is, and where they end.
    """

    ids: Ids
    up: Mask
    values: pa.Array
    slices: Sequence[tuple[Ints, Ints, Ints]]

    def take(self, rows: Ints) -> _Origins:
        """Some of them."""
        each = [(begin[rows], at[rows], end[rows]) for begin, at, end in self.slices]
        return _Origins(self.ids[rows], self.up[rows], self.values.take(pa.array(rows)), each)


def _origins(runs: Sequence[SortedRun], asked: Asked, cuts: pa.Array) -> tuple[_Origins, Ints]:
    """The origins of questions, and that of each question."""
    order = np.lexsort((asked.up, asked.cut, asked.ids))
    first = is_first(asked.ids[order], asked.cut[order], asked.up[order])
    owner = np.empty(len(order), np.int64)
    owner[order] = np.cumsum(first) - 1
    some = order[first]
    ids, up, values = asked.ids[some], asked.up[some], cuts.take(pa.array(asked.cut[some]))
    each = []
    for run in runs:
        begin, end = slices(run.rows.column(ID).to_numpy(), ids)
        each.append((begin, search_values(run.rows.column(VALUE), begin, end, values, up), end))
    return _Origins(ids, up, values, each), owner


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Neighbours:
    """What was read beside the values of origins, with codes for it.

    Attributes:
        runs: The rows, with codes for values.
        values: All values that have codes.
        codes: The code of each of these.
        cut: Per origin the code of its value.
        least: Per origin, larger codes are known; only where answers are smaller than the value.
        most: The other way.
        ended: Whether there is nothing beyond what was read.
    """

    runs: Sequence[SortedRun]
    values: pa.Array
    codes: Ints
    cut: Ints
    least: Ints
    most: Ints
    ended: Mask

    def values_of(self, codes: Ints) -> pa.Array:
        """The values of codes."""
        row_of = np.empty(int(self.codes.max(initial=-1)) + 1, np.int64)
        row_of[self.codes] = np.arange(len(self.codes))
        return self.values.take(pa.array(row_of[codes]))


def _read_beside(runs: Sequence[SortedRun], origins: _Origins, width: int) -> _Neighbours:
    """Read so many rows of every run beside the values of origins."""
    up, count = origins.up, len(origins.ids)
    parts: list[pa.RecordBatch] = []
    ends: list[tuple[Ints, Ints]] = []
    before = 0
    for run, (begin, at, end) in zip(runs, origins.slices, strict=True):
        low = np.where(up, at, np.maximum(at - width, begin))
        high = np.where(up, np.minimum(at + width, end), at)
        starts, stops = _united(low, high)
        parts.append(take_ranges(run, starts, stops)[0])
        more = np.flatnonzero(np.where(up, high < end, low > begin))
        last = np.where(up, high - 1, low)[more]
        range_ = np.searchsorted(starts, last, side="right") - 1
        skipped = starts - (np.cumsum(stops - starts) - (stops - starts))
        ends.append((more, before + last - skipped[range_]))
        before += parts[-1].num_rows
    values = pa.concat_arrays([*(part.column(VALUE) for part in parts), origins.values])
    codes = codes_of(values)
    least, most = np.full(count, _LEAST), np.full(count, _MOST)
    ended = np.ones(count, np.bool_)
    for more, last in ends:
        ended[more] = False
        rising = up[more]
        most[more[rising]] = np.minimum(most[more[rising]], codes[last[rising]])
        least[more[~rising]] = np.maximum(least[more[~rising]], codes[last[~rising]])
    coded, first = [], 0
    for part in parts:
        column = pa.array(codes[first : first + part.num_rows])
        coded.append(SortedRun(part.set_column(1, VALUE, column)))
        first += part.num_rows
    return _Neighbours(coded, values, codes, codes[first:], least, most, ended)


def _united(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Ranges [low, high) as ranges that do not overlap, in order."""
    there = np.flatnonzero(low < high)
    order = there[np.argsort(low[there], kind="stable")]
    low, reach = low[order], np.maximum.accumulate(high[order])
    begins = np.ones(len(low), np.bool_)
    begins[1:] = low[1:] > reach[:-1]
    return low[begins], reach[np.append(begins[1:], True)[: len(low)]]
