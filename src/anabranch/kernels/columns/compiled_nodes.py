"""Rows with equal keys get one number, compiled: a table of hashes instead of a sort."""

from __future__ import annotations

import numpy as np

from anabranch.kernels.columns.grouped import Ids, Ints
from anabranch.model.numbers.compiled import IDS, INTS, compiled


@compiled(IDS, IDS, INTS)
def number_rows(ids: Ids, check: Ids, start: Ints) -> tuple[Ints, Ints]:
    """The number of each row's (id, check, start), from 0 on as they appear; the first row of each.

    Slots of an open table hold numbers, or -1. Ids are hashes, so an id with the start mixed in
    says where to look; rows that are not equal go on to the next free slot. The table has at least
    twice as many slots as rows: about one and a half looks per row.
    """
    length = len(ids)
    size = 16
    while size < 2 * length:
        size *= 2
    slots = np.full(size, -1, np.int32)
    mask = np.uint64(size - 1)
    number, first = np.empty(length, np.int64), np.empty(length, np.int64)
    found = 0
    for row in range(length):
        mixed = ids[row] ^ (np.uint64(start[row]) * np.uint64(0x9E3779B97F4A7C15))
        slot = (mixed ^ (mixed >> np.uint64(32))) & mask
        while True:
            known = slots[slot]
            if known < 0:
                slots[slot] = found
                first[found] = row
                number[row] = found
                found += 1
                break
            other = first[known]
            if ids[other] == ids[row] and start[other] == start[row] and check[other] == check[row]:
                number[row] = known
                break
            slot = (slot + np.uint64(1)) & mask
    return number, first[:found].copy()
