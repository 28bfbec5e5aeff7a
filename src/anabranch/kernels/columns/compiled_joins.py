"""Compiled loops of joins: sort moves into runs, merge these, find what overlaps, make pairs."""

from __future__ import annotations

import numpy as np

from anabranch.kernels.columns.compiled_runs import slices
from anabranch.kernels.columns.grouped import Ids, Ints, Kinds, Mask
from anabranch.model.numbers.compiled import (
    FLAG,
    IDS,
    INT,
    INTS,
    KINDS,
    MASK,
    OWN_INTS,
    compiled,
    together,
)
from anabranch.model.time import FOREVER

ENDLESS = 40
"""The class of lifetimes without an end."""

_FOREVER = int(FOREVER)


@together
def _bits(number: np.uint64) -> int:
    """How many bits a whole number has."""
    bits = 0
    for half in (32, 16, 8, 4, 2, 1):
        if number >> np.uint64(half):
            number >>= np.uint64(half)
            bits += half
    return bits + int(number > 0)


@together
def _length_class(start: np.int64, end: np.int64) -> int:
    """The class of a lifetime: half the bits of its length as a double, as `length_class` has it.

    Doubles have 53 bits: from there on a length of only ones is rounded to the next power of two.
    """
    if end == _FOREVER:
        return ENDLESS
    length = np.uint64(end) - np.uint64(start)
    bits = _bits(length)
    if bits > 53 and length >> np.uint64(bits - 54) == np.uint64((1 << 54) - 1):
        bits += 1
    return (bits + 1) // 2


@compiled(MASK, IDS, INTS, INTS, INTS)
def run_rows(
    chosen: Mask, ids: Ids, start: Ints, end: Ints, new_end: Ints
) -> tuple[Kinds, Ids, Ints, Ints, Ints, Ints]:
    """The rows of a run by class, of moves that come by id and start.

    Gives class, id, start, end and count of each row, and the move that it is of: one row for the
    end that is left, one for the end that is reached. Rows are counted by class first, so that the
    second pass puts each where it belongs (a counting sort, which keeps the order). `chosen` is
    empty where all moves are meant.
    """
    place = np.zeros(ENDLESS + 2, np.int64)
    every = len(chosen) == 0
    for row in range(len(ids)):
        if every or chosen[row]:
            if end[row] > start[row]:
                place[_length_class(start[row], end[row]) + 1] += 1
            if new_end[row] > start[row]:
                place[_length_class(start[row], new_end[row]) + 1] += 1
    for kind in range(ENDLESS + 1):
        place[kind + 1] += place[kind]
    total = place[ENDLESS + 1]
    kinds, keys = np.empty(total, np.uint8), np.empty(total, np.uint64)
    begins, ends = np.empty(total, np.int64), np.empty(total, np.int64)
    counts, rows = np.empty(total, np.int64), np.empty(total, np.int64)
    for row in range(len(ids)):
        if every or chosen[row]:
            begin = start[row]
            if end[row] > begin:
                kind = _length_class(begin, end[row])
                at = place[kind]
                place[kind] += 1
                kinds[at], keys[at], begins[at], ends[at] = kind, ids[row], begin, end[row]
                counts[at], rows[at] = -1, row
            if new_end[row] > begin:
                kind = _length_class(begin, new_end[row])
                at = place[kind]
                place[kind] += 1
                kinds[at], keys[at], begins[at], ends[at] = kind, ids[row], begin, new_end[row]
                counts[at], rows[at] = 1, row
    return kinds, keys, begins, ends, counts, rows


@compiled(KINDS, IDS, INTS, INTS, INTS, INT)
def merge_runs(kind: Kinds, ids: Ids, start: Ints, end: Ints, cuts: Ints, stable: int) -> Ints:
    """Positions by class, id and start of the rows of sorted runs that end at `stable` or later.

    The runs lie one behind the other, and a cut is where the next one begins. Neighbours are merged
    in rounds, as in `merge_order`.
    """
    order, other = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    parts = np.zeros(len(cuts), np.int64)
    size = 0
    for part in range(len(cuts) - 1):
        for row in range(cuts[part], cuts[part + 1]):
            order[size] = row
            size += end[row] >= stable
        parts[part + 1] = size
    while len(parts) > 2:
        count, left_over = (len(parts) - 1) // 2, (len(parts) - 1) % 2
        merged = np.zeros(count + left_over + 1, np.int64)
        for number in range(count):
            out = parts[2 * number]
            first, stop = out, parts[2 * number + 1]
            second, last = stop, parts[2 * number + 2]
            while first < stop and second < last:
                a, b = order[first], order[second]
                if kind[a] != kind[b]:
                    is_second = kind[b] < kind[a]
                elif ids[a] != ids[b]:
                    is_second = ids[b] < ids[a]
                else:
                    is_second = start[b] < start[a]
                other[out] = b if is_second else a
                second += is_second
                first += not is_second
                out += 1
            while first < stop:
                other[out] = order[first]
                first += 1
                out += 1
            while second < last:
                other[out] = order[second]
                second += 1
                out += 1
            merged[number + 1] = last
        if left_over:
            for out in range(parts[-2], parts[-1]):
                other[out] = order[out]
            merged[-1] = parts[-1]
        order, other = other, order
        parts = merged
    return order[:size]


@together
def _seek(times: Ints, first: int, last: int, hint: int, target: int) -> int:
    """The first position in [first, last) whose time is >= target, near a hint: by galloping."""
    step = 1
    if hint < last and times[hint] < target:
        first = hint + 1
        while first + step <= last:
            probe = first + step - 1
            if times[probe] >= target:
                last = probe
                break
            first = probe + 1
            step *= 2
    else:
        last = hint
        while last - step >= first:
            probe = last - step
            if times[probe] < target:
                first = probe + 1
                break
            last = probe
            step *= 2
    while first < last:
        middle = (first + last) >> 1
        if times[middle] < target:
            first = middle + 1
        else:
            last = middle
    return first


@compiled(IDS, INTS, INT, IDS, INTS, INTS, INT)
def near_ranges(
    held: Ids, times: Ints, offset: int, ids: Ids, low: Ints, high: Ints, reach: int
) -> tuple[Ints, Ints]:
    """The rows of each id whose start is in (low - reach, high), of one class of a run.

    `held` and `times` are the ids and starts of the class; positions are given from `offset` on. A
    `reach` below 0 is one without a bound. Stretches of one id are near each other in time, as they
    come by start, so each search begins where the last one ended.
    """
    first, last = slices(held, ids)
    least = np.iinfo(np.int64).min
    known, begin, stop = np.uint64(0), 0, 0
    for row in range(len(ids)):
        since, until = first[row], last[row]
        if since < until:
            if row == 0 or ids[row] != known:
                known, begin, stop = ids[row], since, since
            if reach >= 0:
                earliest = low[row] - (reach - 1) if low[row] > least + reach else least
                begin = _seek(times, since, until, begin, earliest)
            stop = _seek(times, since, until, max(stop, begin), high[row])
            first[row], last[row] = begin, max(stop, begin)
        first[row] += offset
        last[row] += offset
    return first, last


@compiled(INTS, INTS, INT, INTS, INTS, INTS, INTS, INT, OWN_INTS, OWN_INTS, OWN_INTS, OWN_INTS,
          OWN_INTS)  # fmt: skip
def held_rows(
    begins: Ints,
    stops: Ints,
    first: int,
    low: Ints,
    times: Ints,
    ends: Ints,
    counts: Ints,
    size: int,
    position: Ints,
    owner: Ints,
    start: Ints,
    end: Ints,
    count: Ints,
) -> tuple[int, bool]:
    """Append the rows in ranges that end after the `low` of their range, from `size` on.

    Ranges are numbered from `first` on. Gives the new size, and whether all counts are 1.
    """
    is_plain = True
    for index in range(len(begins)):
        since = low[first + index]
        for row in range(begins[index], stops[index]):
            # Written without a branch, and overwritten by the next one if it has ended.
            position[size], owner[size] = row, first + index
            start[size], end[size], count[size] = times[row], ends[row], counts[row]
            is_plain &= counts[row] == 1
            size += ends[row] > since
    return size, is_plain


@compiled(INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, FLAG)
def pair_rows(
    rows: Ints,
    start: Ints,
    end: Ints,
    new_end: Ints,
    owner: Ints,
    position: Ints,
    held_start: Ints,
    held_end: Ints,
    held_count: Ints,
    stops: Ints,
    moved: Ints,
    moved_to: Ints,
    inserts: bool,
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """The moves of pairs: those of events on one side, cut by the events that are held.

    A pair is there as often as the event that is held (`held_count` is empty where that is once).
    Of the held events in `moved`, which ascend, the end moves as well; one that goes to the least
    time has no pair. Gives the rows on both sides, where each part of the held ones stops, and
    three times.
    """
    counted = len(held_count) > 0
    total = len(owner)
    if counted:
        total = 0
        for row in range(len(owner)):
            total += held_count[row]
    least = np.iinfo(np.int64).min
    # Every pair is written before it is known whether it counts: also behind the last one.
    mine, theirs = np.empty(total + 1, np.int64), np.empty(total + 1, np.int64)
    begins, new = np.empty(total + 1, np.int64), np.empty(total + 1, np.int64)
    old = np.empty(0 if inserts else total + 1, np.int64)
    part_stops = np.empty(len(stops), np.int64)
    size = first = cursor = 0
    following = moved[0] if len(moved) else -1
    for part in range(len(stops)):
        for row in range(first, stops[part]):
            at, stop = owner[row], held_end[row]
            until = stop
            if row == following:
                until = moved_to[cursor]
                cursor += 1
                following = moved[cursor] if cursor < len(moved) else -1
                if until == least:
                    continue
            begin = max(start[at], held_start[row])
            mine[size], theirs[size], begins[size] = rows[at], position[row], begin
            new[size] = max(min(new_end[at], until), begin)
            if not inserts:
                old[size] = max(min(end[at], stop), begin)
            if not counted:
                size += 1
                continue
            size += held_count[row] > 0
            for _ in range(1, held_count[row]):
                mine[size], theirs[size] = mine[size - 1], theirs[size - 1]
                begins[size], new[size] = begins[size - 1], new[size - 1]
                if not inserts:
                    old[size] = old[size - 1]
                size += 1
        part_stops[part] = size
        first = stops[part]
    return mine[:size], theirs[:size], part_stops, begins[:size], old[:size], new[:size]


@compiled(OWN_INTS, INTS)
def move_up(values: Ints, rows: Ints) -> None:
    """Close the gaps at some positions, which ascend."""
    for index in range(len(rows)):
        first = rows[index] + 1
        stop = rows[index + 1] if index + 1 < len(rows) else len(values)
        for at in range(first, stop):
            values[at - index - 1] = values[at]
