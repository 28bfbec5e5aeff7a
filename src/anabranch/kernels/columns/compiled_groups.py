"""Compiled loops that add up rows with equal keys."""

from __future__ import annotations

import numpy as np

from anabranch.kernels.columns.grouped import Ids, Ints
from anabranch.model.numbers.compiled import IDS, INT, INTS, compiled, together


@together
def _mixed(id_: np.uint64, end: np.int64, new_end: np.int64) -> np.uint64:
    mixed = id_ ^ (np.uint64(end) * np.uint64(0xC2B2AE3D27D4EB4F))
    mixed ^= np.uint64(new_end) * np.uint64(0x165667B19E3779F9)
    return mixed * np.uint64(0x9E3779B97F4A7C15)


@compiled(IDS, IDS, INTS, INTS)
def group_rows(ids: Ids, checks: Ids, end: Ints, new_end: Ints) -> tuple[Ints, Ints]:
    """The group of every row, and the first row of every group, in the order of their first rows.

    By open addressing with linear probing: at most half of the slots are full, so a chain has 1.5
    of them on average for a hit, 2.5 for a miss (Knuth 6.4). A slot holds a group and a group its
    first row, whose keys are compared in full; equal hashes of different keys cost a step and mix
    nothing. The slot is the upper bits of a product with an odd number, as the lower bits of times
    are often all alike. The table grows with the groups, not the rows: 3,000 groups of a million
    rows stay in the nearest cache. It grows fourfold, so a third of the groups on average is put
    into their slots once more.
    """
    bits = 10
    table = np.full(1 << bits, -1, np.int64)
    shift, last = np.uint64(64 - bits), np.int64((1 << bits) - 1)
    group, first = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    size = 0
    for row in range(len(ids)):
        at = np.int64(_mixed(ids[row], end[row], new_end[row]) >> shift)
        while True:
            found = table[at]
            if found < 0:
                table[at], group[row], first[size] = size, size, row
                size += 1
                if 2 * size > last:
                    bits += 2
                    table = np.full(1 << bits, -1, np.int64)
                    shift, last = np.uint64(64 - bits), np.int64((1 << bits) - 1)
                    for known in range(size):
                        at = first[known]
                        at = np.int64(_mixed(ids[at], end[at], new_end[at]) >> shift)
                        while table[at] >= 0:
                            at = (at + 1) & last
                        table[at] = known
                break
            other = first[found]
            if (
                ids[row] == ids[other]
                and end[row] == end[other]
                and new_end[row] == new_end[other]
                and checks[row] == checks[other]
            ):
                group[row] = found
                break
            at = (at + 1) & last
    return group, first[:size].copy()


@compiled(INTS, INTS, INT)
def add_up(values: Ints, group: Ints, groups: int) -> Ints:
    """The sum of each group."""
    result = np.zeros(groups, np.int64)
    for row in range(len(values)):
        result[group[row]] += values[row]
    return result


@compiled(IDS, IDS, IDS, INTS, INTS, INTS)
def add_up_events(
    owner: Ids, hashes: Ids, checks: Ids, start: Ints, end: Ints, counts: Ints
) -> tuple[Ints, Ints]:
    """For every row the first row of its event, which has the sum of the counts of the event.

    Rows are one event when all five keys agree. By open addressing, as in `group_rows`; a slot
    holds the first row of an event.
    """
    bits = 4
    while (1 << bits) < 2 * len(owner):
        bits += 1
    table = np.full(1 << bits, -1, np.int64)
    shift, last = np.uint64(64 - bits), np.int64((1 << bits) - 1)
    first, sums = np.empty(len(owner), np.int64), np.zeros(len(owner), np.int64)
    for row in range(len(owner)):
        mixed = hashes[row] ^ (owner[row] * np.uint64(0x9E3779B97F4A7C15))
        mixed ^= np.uint64(start[row]) * np.uint64(0xC2B2AE3D27D4EB4F)
        mixed ^= np.uint64(end[row]) * np.uint64(0x165667B19E3779F9)
        at = np.int64((mixed * np.uint64(0x9E3779B97F4A7C15)) >> shift)
        while True:
            other = table[at]
            if other < 0:
                table[at], first[row], sums[row] = row, row, counts[row]
                break
            if (
                hashes[row] == hashes[other]
                and checks[row] == checks[other]
                and owner[row] == owner[other]
                and start[row] == start[other]
                and end[row] == end[other]
            ):
                first[row] = other
                sums[other] += counts[row]
                break
            at = (at + 1) & last
    return first, sums


@compiled(INTS, INT, INTS, INTS, INTS)
def net_groups(
    group: Ints, groups: int, start: Ints, end: Ints, new_end: Ints
) -> tuple[Ints, Ints, Ints]:
    """Add up the moves of each group, which are of one event: rows that stay, and their ends.

    The ends that were left and those that were reached are sorted, what is in both is dropped, and
    the rest are paired in that order; see `anabranch.model.netting.net`. An event has at most as
    many moves afterwards as before, so they are put into its first rows.
    """
    stops = np.zeros(groups + 1, np.int64)
    for row in range(len(group)):
        stops[group[row] + 1] += 1
    longest = 0
    for index in range(groups):
        longest = max(longest, stops[index + 1])
        stops[index + 1] += stops[index]
    members, filled = np.empty(len(group), np.int64), stops.copy()
    for row in range(len(group)):
        members[filled[group[row]]] = row
        filled[group[row]] += 1
    left, reached = np.empty(longest, np.int64), np.empty(longest, np.int64)
    rows, old, new = np.empty_like(members), np.empty_like(members), np.empty_like(members)
    size = 0
    for index in range(groups):
        leaving = reaching = 0
        begins = start[members[stops[index]]]
        for at in range(stops[index], stops[index + 1]):
            row = members[at]
            if end[row] != begins:
                left[leaving] = end[row]
                leaving += 1
            if new_end[row] != begins:
                reached[reaching] = new_end[row]
                reaching += 1
        left[:leaving].sort()
        reached[:reaching].sort()
        one = other = olds = news = 0
        while one < leaving or other < reaching:
            if one < leaving and other < reaching and left[one] == reached[other]:
                one += 1
                other += 1
            elif other == reaching or (one < leaving and left[one] < reached[other]):
                old[size + olds] = left[one]
                one += 1
                olds += 1
            else:
                new[size + news] = reached[other]
                other += 1
                news += 1
        for at in range(max(olds, news)):
            rows[size + at] = members[stops[index] + at]
            if at >= olds:
                old[size + at] = begins
            if at >= news:
                new[size + at] = begins
        size += max(olds, news)
    return rows[:size], old[:size], new[:size]


@compiled(IDS, INTS, INTS, IDS, IDS, INTS)
def cancel(ids: Ids, start: Ints, end: Ints, row: Ids, check: Ids, counts: Ints) -> Ints:
    """The counts of events after those below 0 took their share of equal ones.

    Two passes with a table of the negative rows, as in `group_rows`: the first adds up what is to
    be taken from each event (`owed`), the second takes it from the rows of that event as they come.
    What is then still owed is the count of the first negative row of the event. Rows are not
    brought together otherwise: two equal ones that are there once each stay two.

    Example: counts 1, 1, -1 of one event, 1 of another, -1 of a third: 0, 1, 0 and 1 and -1.
    """
    negative = 0
    for index in range(len(ids)):
        negative += counts[index] < 0
    bits = 4
    while (1 << bits) < 2 * negative:
        bits += 1
    table = np.full(1 << bits, -1, np.int64)
    shift, last = np.uint64(64 - bits), np.int64((1 << bits) - 1)
    owed, first = np.zeros(negative, np.int64), np.empty(negative, np.int64)
    result = counts.copy()
    size = 0
    for taking in (False, True):
        for index in range(len(ids)):
            if (counts[index] < 0) == taking:
                continue
            mixed = ids[index] ^ (np.uint64(end[index]) * np.uint64(0xC2B2AE3D27D4EB4F))
            mixed ^= np.uint64(start[index]) * np.uint64(0x165667B19E3779F9)
            mixed ^= row[index]
            at = np.int64((mixed * np.uint64(0x9E3779B97F4A7C15)) >> shift)
            found = table[at]
            while found >= 0:
                other = first[found]
                if (
                    ids[index] == ids[other]
                    and start[index] == start[other]
                    and end[index] == end[other]
                    and row[index] == row[other]
                    and check[index] == check[other]
                ):
                    break
                at = (at + 1) & last
                found = table[at]
            if taking:
                if found >= 0:
                    share = min(owed[found], counts[index])
                    owed[found] -= share
                    result[index] -= share
                continue
            if found < 0:
                table[at], first[size], found = size, index, size
                size += 1
            owed[found] -= counts[index]
            result[index] = 0
    for event in range(size):
        result[first[event]] = -owed[event]
    return result
