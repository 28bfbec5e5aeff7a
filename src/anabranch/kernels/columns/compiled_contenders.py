"""Which rows may be among the first k of their lifetimes, compiled.

Tables are filled by open addressing, as in `group_rows`. What is ordered by are keys, one line of a
table each, the first being most important; smaller is better.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from anabranch.kernels.columns.grouped import Ints, Mask
from anabranch.model.numbers.compiled import INT, INTS, MASK, compiled, together

_KEYS: Final = types.Array(types.int64, 2, "C", readonly=True)


@together
def _slot(number: int, keys: Ints, row: int, shift: np.uint64) -> np.int64:
    """Where to look for a row in a table, by a number and its keys."""
    mixed = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    for key in range(keys.shape[0]):
        mixed = (mixed ^ np.uint64(keys[key, row])) * np.uint64(0xC2B2AE3D27D4EB4F)
        mixed ^= mixed >> np.uint64(29)
    return np.int64((mixed * np.uint64(0x9E3779B97F4A7C15)) >> shift)


@together
def _agree(keys: Ints, one: int, other: int) -> bool:
    for key in range(keys.shape[0]):  # noqa: SIM110 - generators cannot be compiled
        if keys[key, one] != keys[key, other]:
            return False
    return True


@together
def _is_better(keys: Ints, one: int, other: int) -> bool:
    """Whether a row comes before another in what is ordered by; equal ones do not."""
    for key in range(keys.shape[0]):
        if keys[key, one] != keys[key, other]:
            return bool(keys[key, one] < keys[key, other])
    return False


@compiled(INTS, _KEYS, INTS)
def like(owner: Ints, keys: Ints, wanted: Ints) -> Mask:
    """Mark the rows that agree with a wanted one in owner and keys: those, and maybe more.

    The wanted rows are in a table of at least twice their number (see `group_rows`), each once.
    """
    bits = 4
    while (1 << bits) < 2 * len(wanted):
        bits += 1
    table = np.full(1 << bits, -1, np.int64)
    shift, last = np.uint64(64 - bits), np.int64((1 << bits) - 1)
    for row in wanted:
        at = _slot(owner[row], keys, row, shift)
        while table[at] >= 0:
            other = table[at]
            if owner[row] == owner[other] and _agree(keys, row, other):
                break
            at = (at + 1) & last
        table[at] = row
    result = np.zeros(len(owner), np.bool_)
    for row in range(len(owner)):
        at = _slot(owner[row], keys, row, shift)
        while table[at] >= 0:
            other = table[at]
            if owner[row] == owner[other] and _agree(keys, row, other):
                result[row] = True
                break
            at = (at + 1) & last
    return result


@together
def _sink(keys: Ints, heap: Ints, base: int, size: int) -> None:
    """Bring the root of a heap to its place: no row is better than those below it."""
    at = 0
    while True:
        worse = at
        for child in range(2 * at + 1, min(2 * at + 3, size)):
            if _is_better(keys, heap[base + worse], heap[base + child]):
                worse = child
        if worse == at:
            return
        heap[base + at], heap[base + worse] = heap[base + worse], heap[base + at]
        at = worse


@compiled(INT, INTS, INTS, INTS, _KEYS, MASK)
def contenders(k: int, owner: Ints, begin: Ints, finish: Ints, keys: Ints, counted: Mask) -> Mask:
    """Without the counted rows that have k better counted ones of their owner and stretch of time.

    Rows with one owner, begin and finish are a bucket. Each has a heap of its best rows so far, at
    most k of them, whose root is the worst: most rows are compared with that and with nothing
    else. In the end a row stays if it is not worse than the root of a full heap, so rows equal to
    the k-th stay, too. Linear in the rows, as the heap changes k * log(rows of a bucket) times.
    """
    length = len(owner)
    bits = 4
    while (1 << bits) < 2 * length:
        bits += 1
    table = np.full(1 << bits, -1, np.int64)
    shift, last = np.uint64(64 - bits), np.int64((1 << bits) - 1)
    bucket, first = np.full(length, -1, np.int64), np.empty(length, np.int64)
    rows = np.zeros(length, np.int64)
    buckets = 0
    for row in range(length):
        if not counted[row]:
            continue
        mixed = np.uint64(owner[row]) ^ (np.uint64(begin[row]) * np.uint64(0xC2B2AE3D27D4EB4F))
        mixed ^= np.uint64(finish[row]) * np.uint64(0x165667B19E3779F9)
        at = np.int64((mixed * np.uint64(0x9E3779B97F4A7C15)) >> shift)
        while True:
            found = table[at]
            if found < 0:
                found = buckets
                table[at], first[found] = found, row
                buckets += 1
            other = first[found]
            if (
                owner[row] == owner[other]
                and begin[row] == begin[other]
                and finish[row] == finish[other]
            ):
                bucket[row] = found
                rows[found] += 1
                break
            at = (at + 1) & last
    base, size = np.zeros(buckets + 1, np.int64), np.zeros(buckets, np.int64)
    for number in range(buckets):
        base[number + 1] = base[number] + min(k, rows[number])
    heap = np.empty(base[buckets], np.int64)
    for row in range(length):
        number = bucket[row]
        if number < 0:
            continue
        low = base[number]
        if size[number] < base[number + 1] - low:
            at = size[number]
            size[number] += 1
            while at and _is_better(keys, heap[low + (at - 1) // 2], row):
                heap[low + at] = heap[low + (at - 1) // 2]
                at = (at - 1) // 2
            heap[low + at] = row
        elif _is_better(keys, row, heap[low]):
            heap[low] = row
            _sink(keys, heap, low, size[number])
    keep = np.ones(length, np.bool_)
    for row in range(length):
        number = bucket[row]
        if number >= 0 and size[number] == k:
            keep[row] = not _is_better(keys, heap[base[number]], row)
    return keep
