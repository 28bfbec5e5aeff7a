"""Positions of the rows of groups over time, compiled: one sweep over all that comes and goes."""

from __future__ import annotations

import numpy as np

from anabranch.kernels.columns.fenwick import add, before, rank_at
from anabranch.kernels.columns.grouped import Ints
from anabranch.model.numbers.compiled import FLAG, INTS, compiled, together

# A *rank* is the code of a row minus the first code of its group. `alive[rank]` rows have it now.
# `tree` is a Fenwick tree of `alive` (see `fenwick`), so the rows before a rank, and the rank of
# the n-th row, take O(log size).


@together
def _longer(values: Ints) -> Ints:
    result = np.empty(2 * len(values), np.int64)
    result[: len(values)] = values
    return result


@compiled(FLAG, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS)
def positions_over_time(
    numbers: bool,
    offsets: Ints,
    first_code: Ints,
    peer_of: Ints,
    first_of_peer: Ints,
    owner: Ints,
    code: Ints,
    begin: Ints,
    finish: Ints,
    count: Ints,
    order: Ints,
) -> tuple[Ints, Ints, Ints, Ints, bool]:
    """For each row and stretch of time with one position: code, from, to, and a table of positions.

    The table has, per piece, row number, rank and dense rank (0 unless `numbers`), then per offset
    the code of the row so many further on, or -1. `order` sorts begins, then ends (numbers from
    the number of rows on), by group, then by time. Rows of codes hold `count` times from `begin` to
    `finish`. `peer_of` numbers the codes that are equal in what is ordered by, `first_of_peer` has
    the first code of each.

    At an instant a piece ends for the rows whose position may change: with `numbers` those from
    the first change on, else those within reach of an offset around each change. That the others
    keep theirs: a neighbour changes only if a row comes or goes between the two, and then it was
    within that many rows of the change.
    """
    length, groups, width = len(owner), len(first_code) - 1, 3 + len(offsets)
    most = 1
    for group in range(groups):
        most = max(most, first_code[group + 1] - first_code[group])
    alive, since = np.zeros(most, np.int64), np.zeros(most, np.int64)
    delta, mark = np.zeros(most, np.int64), np.zeros(most, np.int64)
    tree, peer_tree = np.zeros(most + 2, np.int64), np.zeros(most + 2, np.int64)
    peers = np.zeros(most + 1, np.int64)
    changed, closed = np.empty(most, np.int64), np.empty(most, np.int64)
    back = forth = 0
    for offset in offsets:
        # A row is seen from so far: by those behind it that look back, and the other way round.
        back, forth = max(back, offset), max(forth, -offset)
    room = 2 * length + 16
    codes, low, high = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    table = np.empty(room * width, np.int64)
    found, spot, stamp = 0, 0, 0
    unknown = False
    for group in range(groups):
        base, size = first_code[group], first_code[group + 1] - first_code[group]
        first_peer = peer_of[base] if size else 0
        tree[: size + 1] = 0
        peer_tree[: size + 1] = 0
        while spot < 2 * length:
            entry = order[spot]
            row = entry - length if entry >= length else entry
            if owner[row] != group:
                break
            now = finish[row] if entry >= length else begin[row]
            touched = 0
            stamp += 1
            while spot < 2 * length:
                entry = order[spot]
                row = entry - length if entry >= length else entry
                if owner[row] != group or (finish[row] if entry >= length else begin[row]) != now:
                    break
                spot += 1
                rank = code[row] - base
                if mark[rank] != stamp:
                    mark[rank] = stamp
                    changed[touched] = rank
                    delta[rank] = 0
                    touched += 1
                delta[rank] += -count[row] if entry >= length else count[row]
            kept = 0
            least = size
            for number in range(touched):
                rank = changed[number]
                if delta[rank]:
                    changed[kept] = rank
                    kept += 1
                    least = min(least, rank)
            if not kept:
                continue
            stamp += 1
            ending = 0
            total = before(tree, size)
            for number in range(kept):
                rank = changed[number]
                here = before(tree, rank)
                until = total if numbers else min(total, here + alive[rank] + forth)
                if numbers and rank != least:
                    continue
                at = max(here - back, 0)
                while at < until:
                    other = rank_at(tree, size, at)
                    at = before(tree, other) + alive[other]
                    if mark[other] != stamp:
                        mark[other] = stamp
                        closed[ending] = other
                        ending += 1
            for number in range(ending):
                rank = closed[number]
                start, copies = since[rank], alive[rank]
                since[rank] = now
                if start == now:
                    continue
                here = before(tree, rank)
                peer = peer_of[base + rank]
                for copy in range(copies):
                    if found == room:
                        room *= 2
                        codes, low, high = _longer(codes), _longer(low), _longer(high)
                        table = _longer(table)
                    codes[found], low[found], high[found] = base + rank, start, now
                    cell = found * width
                    table[cell] = table[cell + 1] = table[cell + 2] = 0
                    if numbers:
                        table[cell] = here + copy + 1
                        table[cell + 1] = before(tree, first_of_peer[peer] - base) + 1
                        table[cell + 2] = before(peer_tree, peer - first_peer) + 1
                    for number_of in range(len(offsets)):
                        other = rank_at(tree, size, here + copy + offsets[number_of])
                        table[cell + 3 + number_of] = base + other if other >= 0 else -1
                    found += 1
            for number in range(kept):
                rank = changed[number]
                peer = peer_of[base + rank] - first_peer
                if not alive[rank]:
                    since[rank] = now
                alive[rank] += delta[rank]
                unknown = unknown or alive[rank] < 0
                add(tree, size, rank, delta[rank])
                had = peers[peer] > 0
                peers[peer] += delta[rank]
                if (peers[peer] > 0) != had:
                    add(peer_tree, size, peer, -1 if had else 1)
        # All rows end, so that these are empty again.
        alive[:size] = 0
        peers[:size] = 0
        delta[:size] = 0
    return codes[:found], low[:found], high[:found], table[: found * width], unknown
