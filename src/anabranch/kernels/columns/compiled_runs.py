"""Compiled loops over runs: look rows up, merge, leave out what is over.

Runs are sorted by (id, time), and ids are hashes, so they are spread evenly over 64 bits. Lookups
use that: where the ids wanted are sparse, a position is guessed from the id; where they are dense,
the search goes on from the last one in steps of 1, 2, 4 ... (galloping). Either way a lookup costs
O(log distance) instead of O(log rows), and most of its reads hit the cache.
"""

from __future__ import annotations

import numpy as np

from anabranch.kernels.columns.grouped import Ids, Ints, Mask
from anabranch.model.numbers.compiled import BYTES, FLAG, IDS, INT, INTS, MASK, compiled
from anabranch.model.numbers.hashing import Octets

_SPARSE = 32
"""From this many stored rows per wanted id on, positions are guessed instead of galloped to."""


@compiled(IDS, INTS, INTS)
def merge_order(ids: Ids, times: Ints, cuts: Ints) -> Ints:
    """Positions that sort by id and time, where the parts between cuts are sorted already.

    Rows equal in both keep their order. Neighbouring parts are merged in rounds, so p parts cost
    log2(p) passes over all rows; two buffers change roles after each round.
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
            out = parts[2 * number]
            first, stop = out, parts[2 * number + 1]
            second, end = stop, parts[2 * number + 2]
            while first < stop and second < end:
                a, b = order[first], order[second]
                if ids[b] < ids[a] or (ids[b] == ids[a] and times[b] < times[a]):
                    other[out] = b
                    second += 1
                else:
                    other[out] = a
                    first += 1
                out += 1
            while first < stop:
                other[out] = order[first]
                first += 1
                out += 1
            while second < end:
                other[out] = order[second]
                second += 1
                out += 1
            merged[number + 1] = end
        if left_over:
            for out in range(parts[-2], parts[-1]):
                other[out] = order[out]
            merged[-1] = parts[-1]
        order, other = other, order
        parts = merged
    return order


@compiled(INTS, INTS, INTS, INTS, FLAG)
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


@compiled(IDS, IDS)
def _expected(held: Ids, ids: Ids) -> Ints:
    """Guess the positions of ids in sorted ids by interpolation, corrected twice.

    The k-th of n uniform hashes is within about sqrt(n) of k/n * 2^64; each look at what is stored
    at the guess corrects most of that. The loop is over all ids per correction, so that the reads
    of different ids do not wait for each other, as the steps of a binary search do.
    """
    density, length = len(held) / 2.0**64, len(held)
    result = np.empty(len(ids), np.int64)
    for row in range(len(ids)):
        result[row] = min(int(ids[row] * density), length - 1)
    for _ in range(2):
        for row in range(len(ids)):
            off = np.float64(ids[row]) - np.float64(held[result[row]])
            result[row] = max(min(result[row] + int(off * density), length - 1), 0)
    return result


@compiled(IDS, IDS)
def slices(held: Ids, ids: Ids) -> tuple[Ints, Ints]:
    """The range [low, high) of each id's rows in sorted ids; fastest where ids come in order.

    From a guess the search gallops towards the id (steps 1, 2, 4 ...) until it has passed it, and
    halves the last step. The guess only decides how long that takes: a wrong one is still right in
    the end.
    """
    low, high = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    length = len(held)
    far = length > _SPARSE * len(ids)
    expected = _expected(held, ids) if far else low
    for row in range(len(ids)):
        wanted = ids[row]
        first, last = 0, length
        if row and ids[row - 1] <= wanted:
            first = low[row - 1] if ids[row - 1] == wanted else high[row - 1]
        guess = max(expected[row], first) if far else first
        step = 1
        if guess < length and held[guess] < wanted:
            first = guess + 1
            while first + step <= length:
                probe = first + step - 1
                if held[probe] >= wanted:
                    last = probe
                    break
                first = probe + 1
                step *= 2
        else:
            last = guess
            while last - step > first:
                probe = last - step
                if held[probe] < wanted:
                    first = probe + 1
                    break
                last = probe
                step *= 2
        while first < last:
            middle = (first + last) >> 1
            if held[middle] < wanted:
                first = middle + 1
            else:
                last = middle
        low[row] = first
        step, last = 1, length
        while first + step <= length:
            probe = first + step - 1
            if held[probe] > wanted:
                last = probe
                break
            first = probe + 1
            step *= 2
        while first < last:
            middle = (first + last) >> 1
            if held[middle] <= wanted:
                first = middle + 1
            else:
                last = middle
        high[row] = first
    return low, high


@compiled(BYTES, INT, INT, INT)
def set_bits(bits: Octets, offset: int, length: int, count: int) -> Ints:
    """The positions, counted from `offset` on, of the `count` bits that are set; lowest bit first.

    Every position is written, and the place moves on only behind a bit that is set: which bits
    those are costs no wrong guess of a branch.
    """
    found = np.empty(count + 1, np.int64)
    size = 0
    for row in range(length):
        at = row + offset
        found[size] = row
        size += (bits[at >> 3] >> (at & 7)) & 1
        if size > count:
            break
    return found[:count]


@compiled(INTS, INTS)
def positions(starts: Ints, stops: Ints) -> tuple[Ints, Ints]:
    """All positions in the ranges [start, stop), and the number of the range of each."""
    total = 0
    for row in range(len(starts)):
        total += max(stops[row] - starts[row], 0)
    found, owner = np.empty(total, np.int64), np.empty(total, np.int64)
    size = 0
    for row in range(len(starts)):
        for position in range(starts[row], stops[row]):
            found[size], owner[size] = position, row
            size += 1
    return found, owner


@compiled(IDS, INTS, IDS, INTS, INTS)
def around(
    held: Ids, times: Ints, ids: Ids, low: Ints, high: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Rows in stretches [low, high] of keys, both in order: the first one, and behind the last.

    Also where they begin and end with one more row of the key on each side, if there is one. As
    stretches are in order, the search for one begins where the last one ended (`cursor`).
    """
    count, length = len(ids), len(held)
    start, stop = np.empty(count, np.int64), np.empty(count, np.int64)
    left, right = np.empty(count, np.int64), np.empty(count, np.int64)
    far = length > _SPARSE * count
    expected = _expected(held, ids) if far else start
    density = length / 2.0**64
    cursor = 0
    for row in range(count):
        wanted, since, until = ids[row], low[row], high[row]
        first, last = cursor, length
        if first < length and (
            held[first] < wanted or (held[first] == wanted and times[first] < since)
        ):
            if far:
                guess = max(expected[row], first)
            else:
                guess = min(first + int((wanted - held[first]) * density), length - 1)
            step = 1
            if held[guess] < wanted or (held[guess] == wanted and times[guess] < since):
                first = guess + 1
                while first + step <= length:
                    probe = first + step - 1
                    if held[probe] < wanted or (held[probe] == wanted and times[probe] < since):
                        first = probe + 1
                        step *= 2
                    else:
                        last = probe
                        break
            else:
                last = guess
                while last - step > first:
                    probe = last - step
                    if held[probe] < wanted or (held[probe] == wanted and times[probe] < since):
                        first = probe + 1
                        break
                    last = probe
                    step *= 2
            while first < last:
                probe = (first + last) >> 1
                if held[probe] < wanted or (held[probe] == wanted and times[probe] < since):
                    first = probe + 1
                else:
                    last = probe
        start[row] = first
        left[row] = first - 1 if first and held[first - 1] == wanted else first
        step, last = 1, length
        while first + step <= length:
            probe = first + step - 1
            if held[probe] == wanted and times[probe] <= until:
                first = probe + 1
                step *= 2
            else:
                last = probe
                break
        while first < last:
            probe = (first + last) >> 1
            if held[probe] == wanted and times[probe] <= until:
                first = probe + 1
            else:
                last = probe
        stop[row] = first
        right[row] = first + 1 if first < length and held[first] == wanted else first
        cursor = first
    return start, stop, left, right


@compiled(IDS, INTS, IDS, INT)
def recent(ids: Ids, times: Ints, uncertain: Ids, stable: int) -> Ints:
    """Positions of the rows of a run that do not end before the stable point.

    The run itself tells when they end, except for the `uncertain` keys, given in order: there a
    newer run removes rows, so the next row of this run may not be where a segment ends.
    """
    found = np.empty(len(ids), np.int64)
    size, cursor = 0, 0
    for row in range(len(ids)):
        if row + 1 < len(ids) and times[row + 1] < stable and ids[row + 1] == ids[row]:
            while cursor < len(uncertain) and uncertain[cursor] < ids[row]:
                cursor += 1
            if cursor == len(uncertain) or uncertain[cursor] != ids[row]:
                continue
        found[size] = row
        size += 1
    return found[:size]


@compiled(INTS, IDS, INTS, INTS, INT, INT, INT, FLAG)
def survivors(
    order: Ints,
    ids: Ids,
    times: Ints,
    counts: Ints,
    stable: int,
    forever: int,
    removed: int,
    whole: bool,
) -> Ints:
    """Of the rows of timelines in an order by id, time and age, those that still matter.

    See `timeline_rows.merger`; it is one pass from the end, as a row lasts until the next one.
    `until` is the start of the row that follows in time. Kept rows fill the array from the back, so
    the first kept row of a key is at `size` when the key is done: if it is a gap and `whole`, it is
    given up.

    Example, S = 15, `whole`: rows 5: n=0, 10: n=1, 20: n=0. From the end: 20 is kept (a last gap is
    dropped only before S), 10 lasts until 20 >= 15 and is kept, 5 lasts until 10 < 15 and is
    dropped.
    """
    kept = np.empty(len(order), np.int64)
    size = len(order)
    key, latest = np.uint64(0), 0
    of_key, until, open_ = size, forever, True
    for index in range(len(order) - 1, -1, -1):
        row = order[index]
        if index == len(order) - 1 or ids[row] != key:
            if whole and size < of_key and counts[kept[size]] == 0:
                size += 1  # a gap that begins a key
            key, of_key, until, open_ = ids[row], size, forever, True
        elif times[row] == latest:
            continue
        latest = times[row]
        if counts[row] == removed:
            if not whole:
                size -= 1
                kept[size] = row
            continue
        dead = until < stable or (whole and open_ and counts[row] == 0 and latest < stable)
        until, open_ = latest, False
        if not dead:
            size -= 1
            kept[size] = row
    if whole and size < of_key and counts[kept[size]] == 0:
        size += 1
    return kept[size:]


@compiled(INTS, INTS, INTS, INTS, INTS, INTS, FLAG, INT, INT)
def meet(
    begins: Ints,
    times: Ints,
    low: Ints,
    high: Ints,
    other_times: Ints,
    other_counts: Ints,
    newer: bool,
    stable: int,
    removed: int,
) -> tuple[Mask, Mask]:
    """Compare a run with another one, of which keys have the slices [low, high).

    Marks the rows before the stable point that the other run, if `newer`, takes away, and the keys
    of which it has a row no later than this run's last one.
    """
    gone, shared = np.zeros(len(times), np.bool_), np.zeros(len(begins), np.bool_)
    for key in range(len(begins)):
        row, other, stop = begins[key], low[key], high[key]
        last = begins[key + 1] if key + 1 < len(begins) else len(times)
        shared[key] = other < stop and other_times[other] <= times[last - 1]
        if not newer or not shared[key]:
            continue
        end = stop
        while other < end:
            middle = (other + end) >> 1
            if other_times[middle] < times[row]:
                other = middle + 1
            else:
                end = middle
        while row < last and times[row] < stable and other < stop:
            if other_times[other] < times[row]:
                other += 1
            else:
                gone[row] = other_times[other] == times[row] and other_counts[other] == removed
                row += 1
    return gone, shared


@compiled(INTS, INTS, INTS, MASK, MASK, INT, INT)
def remaining(
    begins: Ints, times: Ints, counts: Ints, gone: Mask, shared: Mask, stable: int, removed: int
) -> Ints:
    """The rows of a run that still matter, per key from its anchor on; see `trimmer`."""
    found = np.empty(len(times), np.int64)
    size = 0
    for key in range(len(begins)):
        first = begins[key]
        last = begins[key + 1] if key + 1 < len(begins) else len(times)
        anchor = last - 1
        while anchor >= first and (
            times[anchor] >= stable or counts[anchor] == removed or gone[anchor]
        ):
            anchor -= 1
        if anchor == last - 1 and counts[anchor] == 0 and not shared[key]:
            continue
        for row in range(max(anchor, first), last):
            if not gone[row]:
                found[size] = row
                size += 1
    return found[:size]
