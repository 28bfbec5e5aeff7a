"""Compiled loops over timelines: what moves touch, what is there before and after them.

All arrays are sorted by (id, time), so each loop is one pass with a few cursors, and costs O(rows)
where numpy needs a sort or several passes. The meaning of each loop is that of the numpy lines in
`trace.breakpoints`, `trace.timeline`, `trace.timeline_rows` and `trace.output`, which small batches
take.
"""

from __future__ import annotations

import numpy as np

from anabranch.kernels.columns.grouped import Ids, Ints, Mask
from anabranch.model.numbers.compiled import IDS, INT, INTS, MASK, OWN_INTS, compiled

_SHIFTS = 8
"""Above this many shifts per row on average, insertion sort gives way to merge sort."""


@compiled(OWN_INTS, OWN_INTS, INT)
def _merge_sort(times: Ints, moves: Ints, length: int) -> None:
    """Sort by time, bottom up; equal ones keep their order. O(n log n), less where runs are sorted.

    Of each pair of neighbouring pieces only the left one is copied aside; the output never
    overtakes the right one, because it has written at most as many rows as both have given.
    """
    times_too, moves_too = np.empty(length, np.int64), np.empty(length, np.int64)
    width = 1
    while width < length:
        for begin in range(0, length - width, 2 * width):
            middle, stop = begin + width, min(begin + 2 * width, length)
            if times[middle - 1] <= times[middle]:
                continue
            for row in range(width):
                times_too[row], moves_too[row] = times[begin + row], moves[begin + row]
            first, second, out = 0, middle, begin
            while first < width:
                if second < stop and times[second] < times_too[first]:
                    times[out], moves[out] = times[second], moves[second]
                    second += 1
                else:
                    times[out], moves[out] = times_too[first], moves_too[first]
                    first += 1
                out += 1
        width *= 2


@compiled(INTS, INTS, INT, INT, OWN_INTS, OWN_INTS)
def _sort_ends(values: Ints, by_id: Ints, first: int, last: int, times: Ints, moves: Ints) -> None:
    """Sort the ends of one key's moves by time.

    Moves of one batch are nearly in order as a rule: insertion sort is O(n) there. It has a budget
    of shifts; when that is spent, rows are only copied and sorted by merging, so the worst case is
    O(n log n).
    """
    left = _SHIFTS * (last - first)
    for row in range(last - first):
        move = by_id[first + row]
        time = values[move]
        slot = row
        if left >= 0:
            while slot and times[slot - 1] > time:
                times[slot], moves[slot] = times[slot - 1], moves[slot - 1]
                slot -= 1
                left -= 1
        times[slot], moves[slot] = time, move
    if left < 0:
        _merge_sort(times, moves, last - first)


@compiled(INTS, IDS, INTS, INTS)
def endpoints(
    by_id: Ints, ids: Ids, end: Ints, new_end: Ints
) -> tuple[Ints, Ids, Ints, Ints, Ids, Ints, Ints, Ints]:
    """The ends of moves by id and time, and the islands that they cover.

    Given is an order by id. Gives the entries (the number of a move for its old end, and for its
    new end as much more as there are moves), their ids and times, how many moves cover what
    follows each; and per island its id, first and last instant and the first move of its key.

    Per key, old ends and new ends are sorted apart and then merged: where a move goes forward, its
    old end opens (+1) and its new end closes (-1) a stretch, and the other way round where it goes
    back. An island begins at the first end of a key, and at an end that finds cover 0, unless it is
    at the very instant where the last island closed: two stretches that touch are one island.
    """
    count = len(by_id)
    entries, times = np.empty(2 * count, np.int64), np.empty(2 * count, np.int64)
    owners, covers = np.empty(2 * count, np.uint64), np.empty(2 * count, np.int64)
    keys, movers = np.empty(count, np.uint64), np.empty(count, np.int64)
    low, high = np.empty(count, np.int64), np.empty(count, np.int64)
    old_times, old_moves = np.empty(count, np.int64), np.empty(count, np.int64)
    new_times, new_moves = np.empty(count, np.int64), np.empty(count, np.int64)
    island = -1
    first = 0
    while first < count:
        move = by_id[first]
        key = ids[move]
        last = first + 1
        while last < count and ids[by_id[last]] == key:
            last += 1
        size = last - first
        if size == 1:
            old_times[0], old_moves[0], new_times[0], new_moves[0] = (
                end[move],
                move,
                new_end[move],
                move,
            )
        else:
            _sort_ends(end, by_id, first, last, old_times, old_moves)
            _sort_ends(new_end, by_id, first, last, new_times, new_moves)
        old = new = cover = 0
        for index in range(2 * first, 2 * last):
            at_new = old == size or (new < size and new_times[new] < old_times[old])
            if at_new:
                move, time = new_moves[new], new_times[new]
                new += 1
            else:
                move, time = old_moves[old], old_times[old]
                old += 1
            if index == 2 * first or (cover == 0 and time != times[index - 1]):
                island += 1
                keys[island], low[island], movers[island] = key, time, by_id[first]
            high[island] = time
            if end[move] != new_end[move]:
                cover += 1 if (end[move] < new_end[move]) != at_new else -1
            entries[index] = move + count if at_new else move
            owners[index], times[index], covers[index] = key, time, cover
        first = last
    found = island + 1
    islands = keys[:found], low[:found], high[:found], movers[:found]
    return entries, owners, times, covers, *islands


@compiled(INTS, INTS, INTS, INTS, INT, IDS, INTS, INTS)
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

    The row behind an island is held back in `waiting`: it may turn out to be the row before, or
    inside, the next island of the key, and must not be written twice. `order` has rows per island,
    so the same stored row may occur under two islands; that is found by its time.
    """
    count = len(low)
    found = np.empty(len(order), np.int64)
    is_before, is_inside = np.zeros(len(order), np.bool_), np.zeros(len(order), np.bool_)
    before, after = np.full(count, -1), np.full(count, -1)
    size = 0
    waiting = -1
    index = 0
    for island in range(count):
        same_key = island > 0 and ids[island] == ids[island - 1]
        begin = index
        nearest = -1
        while index < len(order) and owner[order[index]] == island:
            row = order[index]
            if times[row] >= low[island]:
                break
            index += 1
            if index < len(order):
                following = order[index]
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
        while index < len(order) and owner[order[index]] == island:
            row = order[index]
            index += 1
            if index < len(order):
                following = order[index]
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
        if index == begin and index < len(order) and owner[order[index]] == island:
            index += 1
    if waiting >= 0:
        found[size] = waiting
        size += 1
    return found[:size], is_before[:size], is_inside[:size], before, after


@compiled(IDS, INTS, MASK, INTS, IDS, INTS, INTS, INT)
def weave(
    held_ids: Ids,
    held_times: Ints,
    sure: Mask,
    entries: Ints,
    ids: Ids,
    times: Ints,
    covers: Ints,
    forever: int,
) -> tuple[Ids, Ints, Mask, Mask, Mask, Mask, Mask, Ints, Ints, Ints, Ints, Ints]:
    """Merge stored rows and ends of moves, both by id and time, into breakpoints.

    Gives the fields of `Breakpoints` in order. A merge of two sorted lists; `here` is the
    breakpoint being filled. What is final only when a breakpoint is complete (`touched`, `source`)
    is written when the next one begins, and what needs the whole key (`move`) when the next key
    begins.
    """
    held, moved = len(held_ids), len(entries) // 2
    length = held + len(entries)
    at, when = np.empty(length, np.uint64), np.empty(length, np.int64)
    first, last = np.zeros(length, np.bool_), np.zeros(length, np.bool_)
    touched, old_row = np.zeros(length, np.bool_), np.zeros(length, np.bool_)
    complete, source = np.zeros(length, np.bool_), np.empty(length, np.int64)
    move = np.empty(length, np.int64)
    held_index = np.empty(held, np.int64)
    end_index, new_end_index = np.empty(moved, np.int64), np.empty(moved, np.int64)
    here, group, cover, latest, least = -1, 0, 0, -1, moved
    row = entry = 0
    while row < held or entry < len(entries):
        from_held = row < held and (
            entry == len(entries)
            or held_ids[row] < ids[entry]
            or (held_ids[row] == ids[entry] and held_times[row] <= times[entry])
        )
        if from_held:
            key, time = held_ids[row], held_times[row]
        else:
            key, time = ids[entry], times[entry]
        if here < 0 or key != at[here] or time != when[here]:
            if here >= 0:
                touched[here] = cover > 0 and when[here] != forever
                source[here] = latest
            if here < 0 or key != at[here]:
                if here >= 0:
                    last[here] = True
                    for spot in range(group, here + 1):
                        move[spot] = least
                group, cover, latest, least = here + 1, 0, -1, moved
                first[here + 1] = True
            here += 1
            at[here], when[here] = key, time
        if from_held:
            old_row[here] = True
            complete[here] |= sure[row]
            held_index[row] = here
            latest = row
            row += 1
            continue
        complete[here] = True
        cover = covers[entry]
        number = entries[entry]
        if number < moved:
            end_index[number] = here
            least = min(least, number)
        else:
            new_end_index[number - moved] = here
        entry += 1
    if here >= 0:
        touched[here] = cover > 0 and when[here] != forever
        source[here] = latest
        last[here] = True
        for spot in range(group, here + 1):
            move[spot] = least
    size = here + 1
    return (
        at[:size],
        when[:size],
        first[:size],
        last[:size],
        touched[:size],
        old_row[:size],
        complete[:size],
        source[:size],
        move[:size],
        held_index,
        end_index,
        new_end_index,
    )


@compiled(INTS, INTS, INTS, INTS, INTS, MASK, MASK)
def lane(
    held: Ints,
    source: Ints,
    weight: Ints,
    end_index: Ints,
    new_end_index: Ints,
    first: Mask,
    touched: Mask,
) -> tuple[Ints, Ints]:
    """A lane at all breakpoints, as it was and with the weights of moves added.

    Weights enter at old ends and leave at new ends, so their running sum over the breakpoints of a
    key is what the moves add to each segment. (Where a move goes back in time the same formula
    gives minus its weight in between.)
    """
    length = len(source)
    old, new = np.empty(length, np.int64), np.zeros(length, np.int64)
    for move in range(len(weight)):
        new[end_index[move]] += weight[move]
        new[new_end_index[move]] -= weight[move]
    total = 0
    for index in range(length):
        if first[index]:
            total = 0
        total += new[index]
        was = held[source[index]] if source[index] >= 0 else 0
        old[index] = was
        new[index] = was + total if touched[index] else was
    return old, new


@compiled(INTS, MASK, MASK, MASK, MASK, MASK, MASK, MASK, INT)
def changes(
    times: Ints,
    last: Mask,
    complete: Mask,
    old_row: Mask,
    new_row: Mask,
    old_there: Mask,
    new_there: Mask,
    same: Mask,
    forever: int,
) -> tuple[Ints, Mask, Ints, Ints, Ints]:
    """Moves of output events, see `output.changed_events`.

    From the last breakpoint to the first: the end of a segment is the next row, so `old_end` and
    `now_end` are known when a segment is reached. Results fill the arrays from the back.
    """
    room = 0
    for index in range(len(times)):
        if complete[index]:
            room += old_row[index] and old_there[index]
            room += new_row[index] and new_there[index]
    rows, is_old = np.empty(room, np.int64), np.empty(room, np.bool_)
    start, end, new_end = (
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
    )
    size = room
    old_end = now_end = forever
    for index in range(len(times) - 1, -1, -1):
        time = times[index]
        if last[index]:
            old_end = now_end = forever
        was = complete[index] and old_row[index] and old_there[index]
        now = complete[index] and new_row[index] and new_there[index]
        if was and now and same[index]:
            if old_end != now_end:
                size -= 1
                rows[size], is_old[size], start[size] = index, False, time
                end[size], new_end[size] = old_end, now_end
        else:
            if now:
                size -= 1
                rows[size], is_old[size], start[size] = index, False, time
                end[size], new_end[size] = time, now_end
            if was:
                size -= 1
                rows[size], is_old[size], start[size] = index, True, time
                end[size], new_end[size] = old_end, time
        if old_row[index]:
            old_end = time
        if new_row[index]:
            now_end = time
    return rows[size:], is_old[size:], start[size:], end[size:], new_end[size:]
