"""Compiled loops that add up rows with equal keys."""

from __future__ import annotations

import numpy as np

from anabranch.kernels.columns.grouped import Ids, Ints
from anabranch.model.numbers.compiled import IDS, INT, INTS, compiled


@compiled(IDS, IDS, INTS, INTS)
def group_rows(ids: Ids, checks: Ids, end: Ints, new_end: Ints) -> tuple[Ints, Ints]:
    """The group of every row, and the first row of every group, in the order of their first rows.

    By open addressing with linear probing: the table has at least two slots per row, so at most
    half are full and a chain has 1.5 slots on average for a hit, 2.5 for a miss (Knuth 6.4). A slot
    holds a group and a group its first row, whose keys are compared in full; equal hashes of
    different keys cost a step and mix nothing. The slot is the upper bits of a product with an odd
    number, as the lower bits of times are often all alike.
    """
    bits = 4
    while (1 << bits) < 2 * len(ids):
        bits += 1
    table = np.full(1 << bits, -1, np.int64)
    shift, last = np.uint64(64 - bits), np.int64((1 << bits) - 1)
    group, first = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    size = 0
    for row in range(len(ids)):
        mixed = ids[row] ^ (np.uint64(end[row]) * np.uint64(0xC2B2AE3D27D4EB4F))
        mixed ^= np.uint64(new_end[row]) * np.uint64(0x165667B19E3779F9)
        at = np.int64((mixed * np.uint64(0x9E3779B97F4A7C15)) >> shift)
        while True:
            found = table[at]
            if found < 0:
                table[at], group[row], first[size] = size, size, row
                size += 1
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
