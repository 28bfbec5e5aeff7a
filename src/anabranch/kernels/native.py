"""Loops over sorted columns, compiled: where numpy would need many passes or a sort.

Only large batches come here (see `columns.MANY`), so that short runs need not load the compiler.
Code is compiled once per machine, which takes some seconds, and kept beside the package or in the
user's cache folder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, types

from anabranch.kernels.columns import Double, Floats, Ids, Ints, Mask

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _column(kind: types.Type) -> types.Array:
    """A column that is only read, as those in Arrow's memory are."""
    return types.Array(kind, 1, "C", readonly=True)


_IDS, _INTS = _column(types.uint64), _column(types.int64)
_FLOATS, _MASK = _column(types.float64), _column(types.boolean)
_INT, _FLAG = types.int64, types.boolean


def _compiled(*arguments: types.Type) -> Callable[[_Function], _Function]:
    """Compile for these types, once per machine."""

    def decorate(function: _Function) -> _Function:
        try:
            return cast(_Function, njit(arguments, cache=True)(function))
        except RuntimeError:
            # There is no folder for compiled code, as where the package lies in an archive.
            return cast(_Function, njit(arguments)(function))

    return decorate


@_compiled(_IDS, _INTS, _INTS)
def merge_order(ids: Ids, times: Ints, cuts: Ints) -> Ints:
    """Positions that sort by id and time, where the parts between cuts are sorted already.

    Rows equal in both keep their order.
    """
    order = np.arange(len(ids))
    other = np.empty(len(ids), np.int64)
    parts = cuts.copy()
    while len(parts) > 2:
        count = (len(parts) - 1) // 2
        left_over = (len(parts) - 1) % 2
        merged = np.empty(count + left_over + 1, np.int64)
        merged[0] = 0
        for number in range(count):
            place = parts[2 * number]
            first, stop = place, parts[2 * number + 1]
            second, end = stop, parts[2 * number + 2]
            while first < stop and second < end:
                a, b = order[first], order[second]
                if ids[b] < ids[a] or (ids[b] == ids[a] and times[b] < times[a]):
                    other[place] = b
                    second += 1
                else:
                    other[place] = a
                    first += 1
                place += 1
            while first < stop:
                other[place] = order[first]
                first += 1
                place += 1
            while second < end:
                other[place] = order[second]
                second += 1
                place += 1
            merged[number + 1] = end
        if left_over:
            for place in range(parts[-2], parts[-1]):
                other[place] = order[place]
            merged[-1] = parts[-1]
        order, other = other, order
        parts = merged
    return order


@_compiled(_INTS, _INTS, _INTS, _INTS, _FLAG)
def search(times: Ints, low: Ints, high: Ints, target: Ints, after_equal: bool) -> Ints:
    """The first position in each slice [low, high) whose time is >= target (or > target)."""
    result = np.empty(len(low), np.int64)
    for row in range(len(low)):
        first, last, wanted = low[row], high[row], target[row]
        while first < last:
            middle = (first + last) >> 1
            if times[middle] < wanted or (after_equal and times[middle] == wanted):
                first = middle + 1
            else:
                last = middle
        result[row] = first
    return result


@_compiled(_INTS, _INTS)
def group_sums(values: Ints, group_start: Ints) -> Ints:
    """Running sums that begin anew at every group."""
    result = np.empty(len(values), np.int64)
    total = 0
    for row in range(len(values)):
        if group_start[row] == row:
            total = 0
        total += values[row]
        result[row] = total
    return result


@_compiled(_MASK)
def group_starts(first: Mask) -> Ints:
    """For every row the position of the first row of its group."""
    result = np.empty(len(first), np.int64)
    start = 0
    for row in range(len(first)):
        if first[row]:
            start = row
        result[row] = start
    return result


@_compiled(_MASK, _INTS)
def last_marked(marked: Mask, group_start: Ints) -> Ints:
    """For every row the nearest marked row at or before it in its group, or -1."""
    result = np.empty(len(marked), np.int64)
    latest = -1
    for row in range(len(marked)):
        if group_start[row] == row:
            latest = -1
        if marked[row]:
            latest = row
        result[row] = latest
    return result


@_compiled(_MASK, _MASK)
def next_marked(marked: Mask, last: Mask) -> Ints:
    """For every row the nearest marked row after it in its group, or -1."""
    result = np.empty(len(marked), np.int64)
    following = -1
    for row in range(len(marked) - 1, -1, -1):
        if last[row]:
            following = -1
        result[row] = following
        if marked[row]:
            following = row
    return result


@_compiled(_INTS, _INTS)
def group_max(values: Ints, group_start: Ints) -> Ints:
    """The largest value so far, anew in every group."""
    result = np.empty(len(values), np.int64)
    for row in range(len(values)):
        value = values[row]
        if group_start[row] != row and result[row - 1] > value:
            value = result[row - 1]
        result[row] = value
    return result


@_compiled(_FLOATS, _FLOATS, _INTS)
def group_double_sums(high: Floats, low: Floats, group_start: Ints) -> Double:
    """Running sums of doubled numbers that begin anew at every group."""
    sums, rests = np.empty(len(high)), np.empty(len(high))
    total, rest = 0.0, 0.0
    for row in range(len(high)):
        if group_start[row] == row:
            total, rest = 0.0, 0.0
        both = total + high[row]
        part = both - total
        error = (total - (both - part)) + (high[row] - part) + (rest + low[row])
        total = both + error
        part = total - both
        rest = (both - (total - part)) + (error - part)
        sums[row], rests[row] = total, rest
    return sums, rests


@_compiled(_IDS, _IDS)
def slices(held: Ids, ids: Ids) -> tuple[Ints, Ints]:
    """Where the rows of each id lie in sorted ids; fast where the wanted ones come in order."""
    low, high = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    length = len(held)
    for row in range(len(ids)):
        wanted = ids[row]
        first = 0
        if row and ids[row - 1] <= wanted:
            first = low[row - 1] if ids[row - 1] == wanted else high[row - 1]
        step = 1
        while first + step < length and held[first + step] < wanted:
            first += step
            step *= 2
        last = min(first + step, length)
        while first < last:
            middle = (first + last) >> 1
            if held[middle] < wanted:
                first = middle + 1
            else:
                last = middle
        low[row] = first
        step = 1
        while first + step < length and held[first + step] <= wanted:
            first += step
            step *= 2
        last = min(first + step, length)
        while first < last:
            middle = (first + last) >> 1
            if held[middle] <= wanted:
                first = middle + 1
            else:
                last = middle
        high[row] = first
    return low, high


@_compiled(_IDS, _INTS, _INTS)
def islands(ids: Ids, times: Ints, change: Ints) -> tuple[Ids, Ints, Ints]:
    """Stretches that moves cover, from sorted ends: +1 where one begins, -1 where it ends, or 0."""
    length = len(ids)
    keys, low, high = np.empty(length, np.uint64), np.empty(length, np.int64), times.copy()
    count = -1
    cover = 0
    for row in range(length):
        new = row == 0 or ids[row] != ids[row - 1]
        if new or (cover == 0 and times[row] != times[row - 1]):
            count += 1
            keys[count], low[count] = ids[row], times[row]
        high[count] = times[row]
        cover += change[row]
    return keys[: count + 1], low[: count + 1], high[: count + 1]


@_compiled(_INTS, _INTS, _INTS, _INTS, _INT, _IDS, _INTS, _INTS)
def resolve(
    order: Ints,
    owner: Ints,
    times: Ints,
    counts: Ints,
    removed: int,
    ids: Ids,
    low: Ints,
    high: Ints,
) -> tuple[Ints, Mask, Mask, Ints, Ints]:
    """Of candidate rows sorted by island and time, those in and next to the islands.

    The last of equal ones counts. Gives the rows in order, which of them precede an island, which
    lie inside one, and per island the rows before and behind it (-1: none). A row that serves two
    islands of a key is there once.
    """
    count = len(low)
    found = np.empty(len(order), np.int64)
    is_before, is_inside = np.zeros(len(order), np.bool_), np.zeros(len(order), np.bool_)
    before, after = np.full(count, -1), np.full(count, -1)
    size = 0
    waiting = -1
    place = 0
    for island in range(count):
        same_key = island > 0 and ids[island] == ids[island - 1]
        begin = place
        nearest = -1
        while place < len(order) and owner[order[place]] == island:
            row = order[place]
            if times[row] >= low[island]:
                break
            place += 1
            if place < len(order):
                following = order[place]
                if owner[following] == island and times[following] == times[row]:
                    continue
            if counts[row] != removed:
                nearest = row
        before[island] = nearest
        if waiting >= 0 and not (same_key and times[waiting] >= low[island]):
            found[size] = waiting
            size += 1
        waiting = -1
        if nearest >= 0:
            if same_key and size and times[found[size - 1]] == times[nearest]:
                is_before[size - 1] = True
            else:
                found[size] = nearest
                is_before[size] = True
                size += 1
        while place < len(order) and owner[order[place]] == island:
            row = order[place]
            place += 1
            if place < len(order):
                following = order[place]
                if owner[following] == island and times[following] == times[row]:
                    continue
            if counts[row] == removed:
                continue
            if times[row] <= high[island]:
                found[size] = row
                is_inside[size] = True
                size += 1
            elif waiting < 0:
                waiting = row
                after[island] = row
        if place == begin and place < len(order) and owner[order[place]] == island:
            place += 1
    if waiting >= 0:
        found[size] = waiting
        size += 1
    return found[:size], is_before[:size], is_inside[:size], before, after


@_compiled(_IDS, _INTS, _INTS, _MASK, _INTS, _INTS, _INT)
def sweep(
    ids: Ids,
    times: Ints,
    order: Ints,
    sure: Mask,
    end: Ints,
    new_end: Ints,
    forever: int,
) -> tuple[Ids, Ints, Ints, Ints, Mask, Mask, Mask, Ints, Ints]:
    """Places out of sorted entries: held rows (the first numbers), then old ends, then new ends.

    Gives per place its id, time, the first place of its key, then whether a move covers it,
    whether a row is held there, whether it is known for sure, the held row that counts there
    (-1: none) and a move of its key; and for every entry its place.
    """
    length, held, moved = len(order), len(sure), len(end)
    at, when = np.empty(length, np.uint64), np.empty(length, np.int64)
    start, place = np.empty(length, np.int64), np.empty(length, np.int64)
    touched, old_row = np.zeros(length, np.bool_), np.zeros(length, np.bool_)
    known, source = np.zeros(length, np.bool_), np.empty(length, np.int64)
    move = np.zeros(length, np.int64)
    here, group, cover, latest, some = -1, 0, 0, -1, -1
    for row in range(length):
        entry = order[row]
        if here < 0 or ids[row] != at[here] or times[row] != when[here]:
            if here >= 0:
                touched[here] = cover > 0 and when[here] != forever
                source[here] = latest
            here += 1
            if here == 0 or ids[row] != at[here - 1]:
                group, cover, latest, some = here, 0, -1, -1
            at[here], when[here], start[here] = ids[row], times[row], group
        place[entry] = here
        if entry < held:
            old_row[here] = True
            latest = entry
            if sure[entry]:
                known[here] = True
            continue
        known[here] = True
        number = entry - held
        at_new_end = number >= moved
        if at_new_end:
            number -= moved
        if some < 0:
            some = number
            move[group] = number
        if end[number] != new_end[number]:
            cover += 1 if (end[number] < new_end[number]) != at_new_end else -1
    if here >= 0:
        touched[here] = cover > 0 and when[here] != forever
        source[here] = latest
    size = here + 1
    for spot in range(size):
        move[spot] = move[start[spot]]
    return (
        at[:size],
        when[:size],
        start[:size],
        place,
        touched[:size],
        old_row[:size],
        known[:size],
        source[:size],
        move[:size],
    )
