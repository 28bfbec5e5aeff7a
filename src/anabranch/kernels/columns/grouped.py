"""Whole-column arithmetic over sorted groups."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any, Final, TypeVar, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.model.numbers.hashing import load_compiled

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Kinds = npt.NDArray[np.uint8]
_Kind = TypeVar("_Kind", bound=np.generic)

# Why every compiled loop has a twin in numpy. Loading the compiled loops takes 0.55 s of CPU, with
# a warm cache. A process that sees small batches only (a command, a test, a query with little
# traffic) would never earn that back, and workers of Spark must go on while they load. Microseconds
# of CPU, numpy against compiled, for so many rows (moves, ids or questions), one core of an AMD
# EPYC:
#
#                            64          256        2,000          20,000          200,000
#   group_sums            3 / 1        4 / 2        9 / 3         60 / 13        574 / 118
#   group_starts          4 / 2        4 / 2       12 / 3         87 / 11      1,133 / 73
#   last_marked           4 / 1        7 / 3       18 / 4        147 / 18      2,117 / 149
#   next_marked          14 / 3       17 / 3       29 / 3        220 / 14      3,287 / 152
#   group_max            16 / 1       21 / 2       34 / 2        219 / 12      2,185 / 397
#   positions_of          8 / 3       10 / 3       25 / 7        196 / 50      1,961 / 606
#   merge_order          6 / 13      13 / 15      86 / 29     2,645 / 153   33,294 / 2,517
#   slices (of 1M)        5 / 2       13 / 4     241 / 23     2,385 / 512   12,920 / 3,776
#   search               74 / 4       98 / 7     383 / 52   4,471 / 2,335   45,562 / 6,258
#   endpoints            34 / 8      93 / 14     415 / 83   4,472 / 1,065  63,428 / 27,368
#   weave                67 / 9     101 / 13     680 / 46     8,432 / 390  146,674 / 8,704
#   lane_at              16 / 4       20 / 3      76 / 16        693 / 98    8,940 / 1,747
#   changed_events      47 / 12       57 / 7     165 / 22     1,349 / 146   14,994 / 1,578
#   timeline fetch    452 / 205    660 / 212  1,870 / 582  13,290 / 2,614  91,852 / 14,333
#   timeline merge    198 / 131    243 / 134    702 / 191     5,035 / 636   67,050 / 5,290
#   leaders              10 / 2       13 / 2       38 / 6        328 / 51    3,986 / 1,696
#   top k              678 / 48    984 / 140  3,245 / 798  30,682 / 8,878
#
# A step of a timeline runs most of these: with 2,000 rows it is about 3 ms slower in numpy, so it
# takes 180 steps to earn back the loading; with 20,000 rows about 28 ms, or 20 steps. Where numpy
# was nearly as fast (107 against 71 for the rows of 20,000 revised breakpoints), there is no
# compiled loop. Once loaded, compiled loops are called however few rows there are: a replay
# of 300 quotes and one late one takes 2.1 ms, and 3.3 ms where less than 4 rows are left to numpy.
COMPILE_FROM_ROWS = 20_000
"""From this row count on, compiled loops are worth loading."""

WAIT_FROM_ROWS: Final = 300_000
"""From this row count on, block until the compiled loops are loaded."""

PACKED_SORT_FROM_ROWS: Final = 500
"""From this row count on, rows are sorted as whole numbers that hold key and position."""

SAMPLE_ROWS = 4_096
"""Sample size, from chunks of at least twice that, to decide whether adding up equal rows pays."""

_ODD: Final = tuple(
    np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
)


def order_by_id_and_time(ids: Ids, times: Ints) -> Ints:
    """Positions that sort by id, then by time; rows equal in both keep their order.

    Sorting plain numbers is faster than sorting positions by them, so positions ride in the low
    bits (see `_ride`); a million rows take 143 ms against 256 ms for a lexsort. Ids are hashes:
    their high bits nearly always tell them apart.
    """
    length = len(ids)
    if length < PACKED_SORT_FROM_ROWS:
        return np.lexsort((times, ids))
    same, later = ids[1:] == ids[:-1], times[1:] >= times[:-1]
    if ((ids[1:] > ids[:-1]) | (same & later)).all():
        return np.arange(length)
    by_time = order_by_time(times)
    return by_time[order_by_id(ids[by_time])]


def taken(values: npt.NDArray[_Kind], rows: Ints) -> npt.NDArray[_Kind]:
    """The values at positions that are known to be in range: faster than an index."""
    return values.take(rows, mode="clip")


def without(values: Ints, rows: Ints) -> Ints:
    """The values but those at some positions, which ascend; what is behind these is moved up."""
    if not is_compiled(len(values)):
        return np.delete(values, rows)
    native().move_up(values, rows)
    return values[: len(values) - len(rows)]


def true_rows(mask: pa.BooleanArray) -> Ints:
    """The positions where a mask is true; where it is false or null there is none."""
    if not is_compiled(len(mask)):
        return np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False))
    if mask.null_count:
        mask = mask.fill_null(False)
    count = mask.true_count
    if count == len(mask):
        return np.arange(count)
    bits = np.frombuffer(mask.buffers()[1], np.uint8)
    found: Ints = native().set_bits(bits, mask.offset, len(mask), count)
    return found


def is_identity(order: Ints) -> bool:
    """True if an order is the identity permutation, so that nothing need be copied."""
    return bool((order == np.arange(len(order))).all())


def order_by_id(ids: Ids) -> Ints:
    """Positions that sort by id; equal ones keep their order."""
    if len(ids) < PACKED_SORT_FROM_ROWS:
        return np.argsort(ids, kind="stable")
    if (ids[1:] >= ids[:-1]).all():
        return np.arange(len(ids))
    bits = np.uint64(len(ids).bit_length())
    order = _ride((ids >> bits) << bits, bits)
    sorted_ids = ids[order]
    if (sorted_ids[1:] < sorted_ids[:-1]).any():
        return np.argsort(ids, kind="stable")
    return order


def order_by_number_and_time(numbers: Ints, times: Ints) -> Ints:
    """Positions that sort by a small whole number >= 0, then by time; equal ones keep their order.

    Where number * span of times and the position fit into 64 bits, all three are one key and one
    sort.
    """
    length = len(numbers)
    if length < PACKED_SORT_FROM_ROWS:
        return np.lexsort((times, numbers))
    low = int(times.min())
    span, bits = int(times.max()) - low + 1, length.bit_length()
    most = int(numbers.max()) + 1
    if most * span >= 2 ** (64 - bits):
        if most >= 2 ** (64 - bits):
            return np.lexsort((times, numbers))
        by_time = order_by_time(times)
        key = numbers[by_time].astype(np.uint64) << np.uint64(bits)
        return by_time[_ride(key, np.uint64(bits))]
    offset = times.view(np.uint64) - np.uint64(low % 2**64)
    key = numbers.astype(np.uint64) * np.uint64(span) + offset
    return _ride(key << np.uint64(bits), np.uint64(bits))


def order_by_time(times: Ints) -> Ints:
    """Positions that sort by time; equal ones keep their order."""
    length = len(times)
    if length < PACKED_SORT_FROM_ROWS:
        return np.argsort(times, kind="stable")
    low, bits = int(times.min()), length.bit_length()
    if int(times.max()) - low >= 2 ** (64 - bits):
        return np.argsort(times, kind="stable")
    key = times.view(np.uint64) - np.uint64(low % 2**64)
    return _ride(key << np.uint64(bits), np.uint64(bits))


def _ride(keys: Ids, bits: np.uint64) -> Ints:
    """The order of keys whose low bits are free: positions are put there and read off again.

    Sorting plain numbers in place beats sorting positions by them: a million ids take 57 ms against
    98 ms for a stable argsort (CPU time). Equal keys are ordered by position, so the order is
    stable. Example, bits = 2: keys 8, 4, 8 become 8, 5, 10; sorted 5, 8, 10; low bits 1, 0, 2.
    """
    packed = keys | np.arange(len(keys), dtype=np.uint64)
    packed.sort()
    return (packed & ((np.uint64(1) << bits) - np.uint64(1))).view(np.int64)


def merge_order(parts: Sequence[tuple[Ids | Ints, Ints]]) -> Ints:
    """Positions that sort parts, each sorted by id (or place) and time, put one behind the other.

    Rows equal in both keep their order.
    """
    if len(parts) == 1:
        return np.arange(len(parts[0][0]))
    ids = np.concatenate([part for part, _ in parts])
    times = np.concatenate([part for _, part in parts])
    if not is_compiled(len(ids)):
        return np.lexsort((times, ids))
    cuts = np.cumsum([0, *(len(part) for part, _ in parts)])
    return np.asarray(native().merge_order(ids.view(np.uint64), times, cuts))


@final
@dataclass(slots=True)
class _Loading:
    """How compiled loops get into this process, which takes a second."""

    waits: bool = True
    beside: Thread | None = None

    def is_done(self, rows: int) -> bool:
        """Whether so many rows have them now, or are so many that all wait for them."""
        if waits_for(rows):
            return True
        if self.beside is None:
            self.beside = Thread(target=native, name="anabranch-native", daemon=True)
            self.beside.start()
        return False


_LOADING: Final = _Loading()


def load_beside() -> None:
    """From now on batches do not wait for compiled loops, but do without until they are there.

    This is for processes that live long and end without ceremony, as Spark's workers do.
    """
    _LOADING.waits = False


def start_loading() -> None:
    """Load compiled loops in a thread of their own, for many small batches that are to come."""
    if _LOADING.beside is None and not _is_loaded():
        _LOADING.beside = Thread(target=_load, name="anabranch-native", daemon=True)
        _LOADING.beside.start()


def _load() -> None:
    native()
    load_compiled()


def _is_loaded() -> bool:
    # A module becomes an attribute of its package when it is there as a whole.
    return hasattr(sys.modules["anabranch.kernels.columns"], "compiled")


def is_compiled(rows: int) -> bool:
    """Whether a loop over so many rows is a compiled one."""
    if _is_loaded():
        return rows > 0
    return rows >= COMPILE_FROM_ROWS and _LOADING.is_done(rows)


def waits_for(rows: int) -> bool:
    """Whether a batch of so many rows waits while loops are loaded."""
    return _LOADING.waits or rows >= WAIT_FROM_ROWS


def native() -> Any:
    """The compiled loops."""
    # A step over few rows asks dozens of times, and `import` takes a microsecond to find nothing
    # to do.
    loaded = getattr(sys.modules["anabranch.kernels.columns"], "compiled", None)
    if loaded is not None:
        return loaded
    from anabranch.kernels.columns import compiled

    return compiled


def mostly_different(*keys: npt.NDArray[Any]) -> bool:
    """Whether few rows agree in all keys, by a sample: then adding up equal ones does not pay."""
    length = len(keys[0])
    if length < 2 * SAMPLE_ROWS:
        return False
    sample = np.sort(
        np.bitwise_xor.reduce(
            [key[:SAMPLE_ROWS].view(np.uint64) * factor for key, factor in zip(keys, _ODD)]
        )
    )
    # Equal rows may lie far apart; but where there are many, some are in the sample.
    return bool(50 * np.count_nonzero(sample[1:] == sample[:-1]) < SAMPLE_ROWS)


def is_first(*keys: npt.NDArray[Any]) -> Mask:
    """Marks the first row of every group of equal keys, in sorted columns."""
    length = len(keys[0])
    first = np.ones(length, np.bool_)
    if length > 1:
        same = np.ones(length - 1, np.bool_)
        for key in keys:
            same &= key[1:] == key[:-1]
        first[1:] = ~same
    return first


def is_last(*keys: npt.NDArray[Any]) -> Mask:
    """Marks the last row of every group of equal keys, in sorted columns."""
    first = is_first(*keys)
    last = np.ones(len(first), np.bool_)
    last[:-1] = first[1:]
    return last


def positions_of(starts: Ints, stops: Ints) -> tuple[Ints, Ints]:
    """All positions in the ranges [start, stop), and the number of the range of each.

    >>> [a.tolist() for a in positions_of(np.array([5, 0, 9]), np.array([7, 0, 10]))]
    [[5, 6, 9], [0, 0, 2]]
    """
    if is_compiled(len(starts)):
        found: tuple[Ints, Ints] = native().positions(starts, stops)
        return found
    lengths = np.maximum(stops - starts, 0)
    owner = np.repeat(np.arange(len(starts)), lengths)
    before = np.cumsum(lengths) - lengths
    return np.arange(len(owner)) - before[owner] + starts[owner], owner


def group_sums(values: Ints, group_start: Ints) -> Ints:
    """Running sums that begin anew at every group; `group_start` is the first row of each row's."""
    if is_compiled(len(values)):
        return np.asarray(native().group_sums(values, group_start))
    total = np.cumsum(values)
    before = total[group_start] - values[group_start]
    return np.asarray(total - before)


def group_starts(first: Mask) -> Ints:
    """For every row the position of the first row of its group."""
    if is_compiled(len(first)):
        return np.asarray(native().group_starts(first))
    return np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))


def last_marked(marked: Mask, group_start: Ints) -> Ints:
    """For every row the nearest marked row at or before it in its group, or -1."""
    if is_compiled(len(marked)):
        return np.asarray(native().last_marked(marked, group_start))
    latest = np.maximum.accumulate(np.where(marked, np.arange(len(marked)), -1))
    return np.where(latest >= group_start, latest, -1)


def next_marked(marked: Mask, last: Mask) -> Ints:
    """For every row the nearest marked row after it in its group, or -1."""
    if is_compiled(len(marked)):
        return np.asarray(native().next_marked(marked, last))
    length = len(marked)
    if not length:
        return np.empty(0, np.int64)
    marked_rows = np.where(marked, np.arange(length), length)
    following = np.minimum.accumulate(marked_rows[::-1])[::-1]
    following = np.append(following[1:], length)
    ends = np.where(last, np.arange(length), length)
    group_end = np.minimum.accumulate(ends[::-1])[::-1]
    return np.where(following <= group_end, following, -1)


def group_max(values: Ints, group_start: Ints) -> Ints:
    """The largest value so far, anew in every group."""
    if is_compiled(len(values)):
        return np.asarray(native().group_max(values, group_start))
    result = values.copy()
    offset = np.arange(len(values)) - group_start
    step, longest = 1, int(offset.max(initial=0))
    while step <= longest:
        rows = np.flatnonzero(offset >= step)
        result[rows] = np.maximum(result[rows], result[rows - step])
        step *= 2
    return result
