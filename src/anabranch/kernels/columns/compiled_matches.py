"""Compiled loops that find equal events: those taken away and added, those left and reached."""

from __future__ import annotations

import numpy as np

from anabranch.kernels.columns.grouped import Ids, Ints
from anabranch.model.numbers.compiled import (
    IDS,
    INT,
    INTS,
    OWN_INTS,
    byte_at,
    compiled,
    together,
)


@together
def _place(payload: np.uint64, start: np.int64, time: np.int64, shift: np.uint64) -> np.int64:
    mixed = payload ^ (np.uint64(start) * np.uint64(0xC2B2AE3D27D4EB4F))
    mixed ^= np.uint64(time) * np.uint64(0x165667B19E3779F9)
    return np.int64((mixed * np.uint64(0x9E3779B97F4A7C15)) >> shift)


@together
def _table_bits(rows: int) -> int:
    """So many bits that a table of as many places is at most half full."""
    bits = 4
    while (1 << bits) < 2 * rows:
        bits += 1
    return bits


@together
def _found(
    table: Ints,
    first: Ints,
    ids: Ids,
    start: Ints,
    end: Ints,
    key: np.uint64,
    begin: np.int64,
    until: np.int64,
    shift: np.uint64,
) -> tuple[np.int64, np.int64]:
    """Where in the table an event is or belongs, and the number of its group, or -1."""
    at = _place(key, begin, until, shift)
    group = table[at]
    while group >= 0:
        other = first[group]
        if ids[other] == key and start[other] == begin and end[other] == until:
            break
        at = (at + 1) & (len(table) - 1)
        group = table[at]
    return at, group


@compiled(IDS, INTS, INTS, INTS)
def match_negative(ids: Ids, start: Ints, end: Ints, counts: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """For counts below 0 the rows with the same id, start and end, by a table of the former.

    Where one row of count -1 meets one of count 1, payloads need only be compared: gives the rows
    with -1 (`negative`, the first of each group), those with 1, and the index in `negative` that
    belongs to each of the latter. All other rows that are not alone are `unclear`. Most rows start
    or end outside of the range of the negative ones and are not looked up.
    """
    negatives = 0
    least_start = least_end = np.iinfo(np.int64).max
    most_start = most_end = np.iinfo(np.int64).min
    for row in range(len(ids)):
        if counts[row] < 0:
            negatives += 1
            least_start, most_start = min(least_start, start[row]), max(most_start, start[row])
            least_end, most_end = min(least_end, end[row]), max(most_end, end[row])
    bits = _table_bits(negatives)
    table, shift = np.full(1 << bits, -1, np.int64), np.uint64(64 - bits)
    first, partner = np.empty(negatives, np.int64), np.full(negatives, -1, np.int64)
    is_unclear = np.zeros(negatives, np.bool_)
    size = matched = unclear = 0
    for row in range(len(ids)):
        if counts[row] < 0:
            at, group = _found(table, first, ids, start, end, ids[row], start[row], end[row], shift)
            if group < 0:
                table[at], first[size] = size, row
                is_unclear[size] = counts[row] != -1
                unclear += is_unclear[size]
                size += 1
            elif not is_unclear[group]:
                is_unclear[group] = True
                unclear += 1
    positive, groups = np.empty(size, np.int64), np.empty(size, np.int64)
    for row in range(len(ids)):
        if (
            counts[row] <= 0
            or end[row] < least_end
            or end[row] > most_end
            or start[row] < least_start
            or start[row] > most_start
        ):
            continue
        at, group = _found(table, first, ids, start, end, ids[row], start[row], end[row], shift)
        if group < 0 or is_unclear[group]:
            continue
        if partner[group] >= 0 or counts[row] != 1:
            is_unclear[group] = True
            unclear += 1
            continue
        partner[group] = row
        positive[matched], groups[matched] = row, group
        matched += 1
    if not unclear:
        return first[:size], positive[:matched], groups[:matched], first[:0]
    rest = np.empty(len(ids), np.int64)
    others = 0
    for row in range(len(ids)):
        if (
            counts[row] == 0
            or end[row] < least_end
            or end[row] > most_end
            or start[row] < least_start
            or start[row] > most_start
        ):
            continue
        at, group = _found(table, first, ids, start, end, ids[row], start[row], end[row], shift)
        if group >= 0 and is_unclear[group]:
            rest[others] = row
            others += 1
    clear = 0
    for index in range(matched):
        if not is_unclear[groups[index]]:
            positive[clear], groups[clear] = positive[index], groups[index]
            clear += 1
    return first[:size], positive[:clear], groups[:clear], rest[:others]


@compiled(INTS, INTS, INTS, INTS, INTS, INT)
def match_held(
    stops: Ints, owner: Ints, start: Ints, end: Ints, counts: Ints, most: int
) -> tuple[bool, Ints, Ints, Ints]:
    """As `match_negative`, of rows in segments that come by owner and start each.

    Rows with counts below 0 are few, so each is looked for in all segments, from where the last one
    was found: nothing is done for the other rows. Gives whether it worked out: it does not where
    more than `most` events of an owner begin at once. Then rows with -1, the row with 1 for each of
    them, and rows that are unclear, some of them several times.
    """
    negatives = 0
    for row in range(len(counts)):
        negatives += counts[row] < 0
    negative, positive = np.empty(negatives, np.int64), np.empty(negatives, np.int64)
    unclear = np.empty(negatives * most, np.int64)
    cursors, near = np.empty(len(stops), np.int64), np.empty(most, np.int64)
    matched = rest = row = 0
    for own in range(len(stops)):
        for segment in range(len(stops)):
            cursors[segment] = stops[segment - 1] if segment else 0
        while row < stops[own]:
            if counts[row] >= 0:
                row += 1
                continue
            mine, begin, until = owner[row], start[row], end[row]
            taking = giving = size = 0
            partner = row
            for segment in range(len(stops)):
                first, last, step = cursors[segment], stops[segment], 1
                while first + step <= last:
                    probe = first + step - 1
                    if owner[probe] > mine or (owner[probe] == mine and start[probe] >= begin):
                        last = probe
                        break
                    first = probe + 1
                    step *= 2
                while first < last:
                    probe = (first + last) >> 1
                    if owner[probe] > mine or (owner[probe] == mine and start[probe] >= begin):
                        last = probe
                    else:
                        first = probe + 1
                cursors[segment] = first
                compared = 0
                while first < stops[segment] and owner[first] == mine and start[first] == begin:
                    compared += 1
                    if compared > most or size == most:
                        return False, negative[:0], positive[:0], unclear[:0]
                    if end[first] == until and counts[first] != 0:
                        taking += counts[first] < 0
                        giving += counts[first] > 0
                        partner = first if counts[first] > 0 else partner
                        near[size] = first
                        size += 1
                    first += 1
            if taking == 1 and giving == 1 and counts[row] == -1 and counts[partner] == 1:
                negative[matched], positive[matched] = row, partner
                matched += 1
            elif size > 1:
                for index in range(size):
                    unclear[rest] = near[index]
                    rest += 1
            row += 1
    return True, negative[:matched], positive[:matched], unclear[:rest]


@compiled(INTS, IDS, INTS, INTS, INTS, INT)
def match_sorted(
    order: Ints, ids: Ids, start: Ints, end: Ints, counts: Ints, most: int
) -> tuple[Ints, Ints, Ints]:
    """As `match_held`, of rows in an order by class, id and start: equal events are near.

    Rows of one id and start are compared with each other, up to `most` of them.
    """
    negatives = 0
    for row in range(len(counts)):
        negatives += counts[row] < 0
    negative, positive = np.empty(negatives, np.int64), np.empty(negatives, np.int64)
    unclear = np.empty(len(order), np.int64)
    matched = rest = first = 0
    while first < len(order):
        row = order[first]
        last, taken_away = first + 1, int(counts[row] < 0)
        while last < len(order):
            other = order[last]
            if ids[other] != ids[row] or start[other] != start[row]:
                break
            taken_away += int(counts[other] < 0)
            last += 1
        if taken_away and last > first + 1:
            for index in range(first, last):
                if last - first > most:
                    unclear[rest] = order[index]
                    rest += 1
                    continue
                row = order[index]
                taking = giving = 0
                partner = row
                for near in range(first, last):
                    other = order[near]
                    if end[other] == end[row]:
                        taking += counts[other] < 0
                        giving += counts[other] > 0
                        if (counts[other] > 0) != (counts[row] > 0):
                            partner = other
                if taking == 1 and giving == 1 and counts[row] == -1 and counts[partner] == 1:
                    negative[matched], positive[matched] = row, partner
                    matched += 1
                elif (
                    taking
                    and taking + giving > 1
                    and not (
                        taking == 1 and giving == 1 and counts[row] == 1 and counts[partner] == -1
                    )
                ):
                    unclear[rest] = row
                    rest += 1
        first = last
    return negative[:matched], positive[:matched], unclear[:rest]


@together
def _same_payload(
    addresses: Ints, widths: Ints, part: int, position: int, other_part: int, other: int
) -> bool:
    """Whether all bytes of two rows agree, given where each column of each part begins."""
    for column in range(len(widths)):
        width = widths[column]
        first = addresses[part * len(widths) + column] + position * width
        second = addresses[other_part * len(widths) + column] + other * width
        for offset in range(width):
            if byte_at(first + offset) != byte_at(second + offset):
                return False
    return True


@together
def _part(stops: Ints, row: int) -> int:
    part = 0
    while stops[part] <= row:
        part += 1
    return part


@compiled(INTS, INTS, INTS, INTS, INTS, INTS, OWN_INTS, INTS, INTS, INT)
def cancel_held(
    segments: Ints,
    stops: Ints,
    position: Ints,
    owner: Ints,
    start: Ints,
    end: Ints,
    counts: Ints,
    addresses: Ints,
    widths: Ints,
    most: int,
) -> bool:
    """Set counts of -1 to 0 together with those of the events that they take away.

    Rows are found as in `match_held`, and their payloads are compared. Nothing is written, and the
    result is False, where times do not tell for all of them which event is meant.
    """
    negatives = 0
    for row in range(len(counts)):
        negatives += counts[row] < 0
    if not negatives:
        return True
    is_done, negative, positive, unclear = match_held(segments, owner, start, end, counts, most)
    if not is_done or len(unclear) or len(negative) < negatives:
        return False
    for index in range(negatives):
        row, other = negative[index], positive[index]
        places = position[row], position[other]
        parts = _part(stops, row), _part(stops, other)
        if not _same_payload(addresses, widths, parts[0], places[0], parts[1], places[1]):
            return False
    for index in range(negatives):
        counts[negative[index]] = counts[positive[index]] = 0
    return True


@compiled(INTS, IDS, INTS, INTS, INTS, INTS, INTS, INT)
def cancel_sorted(
    order: Ints,
    ids: Ids,
    start: Ints,
    end: Ints,
    counts: Ints,
    addresses: Ints,
    widths: Ints,
    most: int,
) -> tuple[bool, Ints]:
    """An order, as in `match_sorted`, without counts of -1 and the events that they take away.

    The first result is False where times do not tell which events are meant, or payloads differ.
    """
    negative, positive, unclear = match_sorted(order, ids, start, end, counts, most)
    if len(unclear):
        return False, order
    is_gone = np.zeros(len(ids), np.bool_)
    for index in range(len(negative)):
        row, other = negative[index], positive[index]
        if not _same_payload(addresses, widths, 0, row, 0, other):
            return False, order
        is_gone[row] = is_gone[other] = True
    kept = np.empty(len(order) + 1, np.int64)
    size = 0
    for row in order:
        kept[size] = row
        size += not is_gone[row]
    return True, kept[:size]


@compiled(IDS, INTS, INTS, INTS)
def linked(payload: Ids, start: Ints, end: Ints, new_end: Ints) -> Ints:
    """The moves that leave an end which another of the same payload and start reaches, and those.

    Corrections are of a time that most other moves do not reach: those are told by a comparison
    with the first and the last end that is left. Of the rest a table of bits tells most that reach
    none of these ends, and a second one those that leave an end which none of the former reaches.
    Both fit into the cache. Some rows too many are taken.
    """
    leaving = 0
    least_start = least_end = np.iinfo(np.int64).max
    most_start = most_end = np.iinfo(np.int64).min
    for row in range(len(start)):
        if end[row] != start[row]:
            leaving += 1
            least_start, most_start = min(least_start, start[row]), max(most_start, start[row])
            least_end, most_end = min(least_end, end[row]), max(most_end, end[row])
    if not leaving:
        return np.empty(0, np.int64)
    found = np.empty(len(start), np.int64)
    bits = _table_bits(8 * leaving)
    left, shift = np.zeros(1 << (bits - 3), np.uint8), np.uint64(64 - bits)
    for row in range(len(start)):
        if end[row] != start[row]:
            at = _place(payload[row], start[row], end[row], shift)
            left[at >> 3] |= np.uint8(1 << (at & 7))
    reaching = 0
    for row in range(len(start)):
        until = new_end[row]
        if least_end <= until <= most_end and least_start <= start[row] <= most_start:
            at = _place(payload[row], start[row], until, shift)
            found[reaching] = row
            reaching += (left[at >> 3] >> (at & 7)) & 1
    if not reaching:
        return found[:0]
    bits = _table_bits(8 * reaching)
    reached, shift = np.zeros(1 << (bits - 3), np.uint8), np.uint64(64 - bits)
    for index in range(reaching):
        row = found[index]
        at = _place(payload[row], start[row], new_end[row], shift)
        reached[at >> 3] |= np.uint8(1 << (at & 7))
    # Every row is written before it is known whether it counts: also behind the last one that does.
    result = np.empty(reaching + leaving + 1, np.int64)
    size = cursor = 0
    for row in range(len(start)):
        is_linked = cursor < reaching and found[cursor] == row
        cursor += is_linked
        if end[row] != start[row]:
            at = _place(payload[row], start[row], end[row], shift)
            is_linked |= (reached[at >> 3] >> (at & 7)) & 1 == 1
        result[size] = row
        size += is_linked
    return result[:size]


@compiled(IDS, INTS, INTS, INTS, INT)
def chained(ids: Ids, start: Ints, end: Ints, new_end: Ints, most: int) -> bool:
    """Whether a move leaves an end that a move of the same id and start reaches, perhaps itself.

    Moves come by id and start. More than `most` that begin at once, with a correction among them,
    are not looked at: they count as a chain.
    """
    first = 0
    while first < len(ids):
        last, leaves = first + 1, end[first] != start[first]
        while last < len(ids) and ids[last] == ids[first] and start[last] == start[first]:
            leaves |= end[last] != start[last]
            last += 1
        if leaves:
            if last - first > most:
                return True
            for row in range(first, last):
                if end[row] != start[row]:
                    for other in range(first, last):
                        if new_end[other] == end[row]:
                            return True
        first = last
    return False


@compiled(INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS,
          INT, INT)  # fmt: skip
def both_moved(
    rows: Ints,
    left_start: Ints,
    left_end: Ints,
    left_new: Ints,
    owner: Ints,
    start: Ints,
    end: Ints,
    count: Ints,
    right_start: Ints,
    right_end: Ints,
    right_new: Ints,
    fresh_rows: Ints,
    owners: Ints,
    positions: Ints,
    counts: Ints,
    first: int,
    most: int,
) -> tuple[bool, Ints, Ints, Ints]:
    """Pairs that two moves change one after the other, by what is found for both sides.

    A move of the left side (`rows`, below `most`, and its times) is the owner of events of the
    right side as it was (`owner`, `start`, `end`, `count`). One of the right side is the owner of
    events of the left side as it is now; those from `first` on came with a move of the left side,
    whose row is found by `fresh_rows`. A pair is known by that move and by what its right event
    was: few of the second kind have a correction as owner, so these are put into a table.

    Gives whether each is known by that alone. Then the pairs of the first kind, with the end that
    the right event has at last (the least time: nothing is left of the move), and those of the
    second kind, which are no longer needed; both ascend.
    """
    least = np.iinfo(np.int64).min
    is_corrected = right_end != right_start
    size = 0
    for row in range(first, len(owners)):
        size += is_corrected[owners[row]]
    bits = _table_bits(size)
    table, shift = np.full(1 << bits, -1, np.int64), np.uint64(64 - bits)
    numbers, keys = np.arange(size), np.empty(size, np.uint64)
    begins, ends = np.empty(size, np.int64), np.empty(size, np.int64)
    later, sooner = np.empty(size, np.int64), np.full(size, -1, np.int64)
    is_asked = np.zeros(len(rows), np.bool_)
    number = np.full(most, -1, np.int64)
    if size:
        for index in range(len(rows)):
            number[rows[index]] = index
    which = np.empty(size, np.int64)
    is_clear = True
    size = linked = 0
    for row in range(first, len(owners)):
        at = owners[row]
        if not is_corrected[at]:
            continue
        amount = counts[row] if len(counts) else 1
        if not amount:
            continue
        move = number[fresh_rows[positions[row]]]
        if move < 0:
            continue
        key, begin, until = np.uint64(move), right_start[at], right_end[at]
        slot, group = _found(table, numbers, keys, begins, ends, key, begin, until, shift)
        if group >= 0 or amount > 1:
            is_clear = False
            break
        is_asked[move] = True
        table[slot] = size
        keys[size], begins[size], ends[size], later[size] = key, begin, until, row
        size += 1
    if is_clear and size:
        for row in range(len(owner)):
            if not is_asked[owner[row]]:
                continue
            amount = count[row] if len(count) else 1
            key = np.uint64(owner[row])
            slot, group = _found(
                table, numbers, keys, begins, ends, key, start[row], end[row], shift
            )
            if group < 0 or not amount:
                continue
            if sooner[group] >= 0 or amount > 1:
                is_clear = False
                break
            sooner[group], which[linked] = row, group
            linked += 1
    if not is_clear:
        return False, later[:0], later[:0], later[:0]
    chosen, final = np.empty(size, np.int64), np.empty(size, np.int64)
    for index in range(linked):
        group = which[index]
        one = sooner[group]
        at, until = owner[one], right_new[owners[later[group]]]
        begin = max(left_start[at], start[one])
        old = max(min(left_end[at], end[one]), begin)
        is_left = old != max(min(left_new[at], until), begin)
        chosen[index], final[index] = one, until if is_left else least
    others = 0
    for index in range(size):
        later[others] = later[index]
        others += sooner[index] >= 0
    return True, chosen[:linked], final[:linked], later[:others]
