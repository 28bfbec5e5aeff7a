"""Values in order, compiled: statistics after a batch, texts merged, values of instants."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from anabranch.kernels.columns.fenwick import add, before, rank_at
from anabranch.kernels.columns.grouped import Ids, Ints, Mask
from anabranch.model.numbers.compiled import (
    BYTES,
    IDS,
    INT,
    INTS,
    MASK,
    OFFSETS,
    compiled,
    several,
    together,
)
from anabranch.model.numbers.hashing import Octets

Offsets = npt.NDArray[np.int32]

RUNS: Final = 8
"""Runs that `step_to` reads; tuples of columns are filled up to this many."""

_RUN_IDS: Final = several(IDS, RUNS)
_RUN_INTS: Final = several(INTS, RUNS)
_RUN_OFFSETS: Final = several(OFFSETS, RUNS)
_RUN_BYTES: Final = several(BYTES, RUNS)


@together
def _first_at_least(values: Ints, low: int, high: int, wanted: int) -> int:
    """The first position in [low, high) of ascending values with a value >= wanted, or high."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@compiled(INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, MASK, MASK)
def count_batch(
    group: Ints,
    low: Ints,
    high: Ints,
    codes: Ints,
    sign: Ints,
    by_code: Ints,
    positions: Ints,
    index: Ints,
    code: Ints,
    below: Ints,
    upto: Ints,
    had: Mask,
    has: Mask,
) -> tuple[Ints, Ints, Ints, Mask]:
    """Order statistics moved by what a batch adds below them: codes, below, upto, and who is away.

    `group` numbers the keys of breakpoints, from 0 on and ascending. A row of the batch has a code
    from breakpoint `low` up to `high`, `sign` times; `by_code` sorts rows by group and code. Asked
    are breakpoints (`positions`, ascending), each for as many statistics as `index` is longer than
    them, one statistic after the other: who was there (`had`) has a code with `below` smaller
    values and `upto` values that are not larger.

    Where nothing was there, all that is there came with the batch, and the answer is complete.
    Where the index is not in [below, upto) any more, the statistic is *away*: the value that it has
    now is found by stepping from the code (`step_to`).

    One sweep over the breakpoints of a key with a tree of counts over the codes of its rows:
    O((rows + questions) log rows), however many values are alive.
    """
    rows, points, asked = len(low), len(group), len(positions)
    parts = len(index) // max(asked, 1)
    groups = group[points - 1] + 1 if points else 0
    # The different codes of a group, ascending, from `starts[group]` on; a row's rank among them.
    starts, values = np.zeros(groups + 1, np.int64), np.empty(rows, np.int64)
    rank = np.empty(rows, np.int64)
    found, most, latest = 0, 0, -1
    for entry in range(rows):
        row = by_code[entry]
        own = group[low[row]]
        if own != latest:
            for other in range(latest + 1, own + 1):
                starts[other] = found
            latest = own
        elif values[found - 1] == codes[row]:
            rank[row] = found - 1 - starts[own]
            continue
        values[found] = codes[row]
        rank[row] = found - starts[own]
        found += 1
    for other in range(latest + 1, groups + 1):
        starts[other] = found
    for own in range(groups):
        most = max(most, starts[own + 1] - starts[own])
    # Rows by the breakpoint where they begin, and where they end.
    first = np.zeros(points + 1, np.int64)
    for row in range(rows):
        first[low[row]] += 1
        first[high[row]] += 1
    total = 0
    for point in range(points + 1):
        here = first[point]
        first[point] = total
        total += here
    free, entries = first.copy(), np.empty(2 * rows, np.int64)
    for row in range(rows):
        entries[free[low[row]]] = row
        free[low[row]] += 1
        entries[free[high[row]]] = row + rows
        free[high[row]] += 1
    new_code, new_below, new_upto = code.copy(), below.copy(), upto.copy()
    away = np.zeros(len(index), np.bool_)
    tree = np.zeros(most + 1, np.int64)
    own, base, size = -1, 0, 0
    question = 0
    for point in range(points):
        if question == asked:
            break
        if group[point] != own:
            own = group[point]
            base, size = starts[own], starts[own + 1] - starts[own]
            tree[: size + 1] = 0
        for entry in range(first[point], first[point + 1]):
            row = entries[entry]
            if row < rows:
                add(tree, size, rank[row], sign[row])
            else:
                add(tree, size, rank[row - rows], -sign[row - rows])
        if positions[question] != point:
            continue
        for part in range(parts):
            at = part * asked + question
            if not has[at]:
                continue
            if had[at]:
                spot = _first_at_least(values, base, base + size, code[at])
                new_below[at] += before(tree, spot - base)
                equal = spot < base + size and values[spot] == code[at]
                new_upto[at] += before(tree, spot - base + (1 if equal else 0))
                away[at] = index[at] >= new_upto[at] or index[at] < new_below[at]
            elif size:
                spot = rank_at(tree, size, index[at])
                if spot < 0:
                    spot = size - 1
                new_code[at] = values[base + spot]
                new_below[at] = before(tree, spot)
                new_upto[at] = before(tree, spot + 1)
        question += 1
    return new_code, new_below, new_upto, away


@compiled(
    INT, _RUN_IDS, _RUN_INTS, _RUN_INTS, _RUN_INTS, _RUN_INTS,
    IDS, INTS, INTS, INTS, INTS, MASK, INT,
)  # fmt: skip
def step_to(
    runs: int,
    held: tuple[Ids, ...],
    values: tuple[Ints, ...],
    begins: tuple[Ints, ...],
    ends: tuple[Ints, ...],
    counts: tuple[Ints, ...],
    ids: Ids,
    times: Ints,
    index: Ints,
    cut: Ints,
    base: Ints,
    up: Mask,
    most: int,
) -> tuple[Ints, Ints, Ints, Mask]:
    """The codes at an index of what is alive at instants: codes, below, upto, and who is left open.

    Questions are those of `ranked_events.Asked`. From the cut, the rows of all runs are read in the
    order of their codes, at most `most` of them; who has no answer by then is left open, and so is
    who meets a code that fewer than no values have, or the end of the rows.

    Example: 10 values are smaller than the cut 50, the value at index 11 is wanted. Alive are 50,
    50, 53: 50 is at the indexes 10 and 11, so it is the answer, with 10 below and 12 up to it.
    """
    count = len(ids)
    code, below, upto = (
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
    )
    open_ = np.ones(count, np.bool_)
    low, high = np.zeros(RUNS, np.int64), np.zeros(RUNS, np.int64)
    cursor = np.zeros(RUNS, np.int64)
    for row in range(count):
        if not row or ids[row] != ids[row - 1]:
            for run in range(runs):
                first, last = 0, len(held[run])
                while first < last:
                    middle = (first + last) >> 1
                    if held[run][middle] < ids[row]:
                        first = middle + 1
                    else:
                        last = middle
                low[run], last, step = first, len(held[run]), 1
                # The rows of a key are few beside those of a run: gallop to their end.
                while first + step <= last:
                    if held[run][first + step - 1] != ids[row]:
                        last = first + step - 1
                        break
                    first += step
                    step *= 2
                while first < last:
                    middle = (first + last) >> 1
                    if held[run][middle] == ids[row]:
                        first = middle + 1
                    else:
                        last = middle
                high[run] = first
        for run in range(runs):
            cursor[run] = _first_at_least(values[run], low[run], high[run], cut[row])
            if not up[row]:
                cursor[run] -= 1
        seen, passed, now = 0, 0, times[row]
        while seen < most:
            # The nearest code that any run has next.
            nearest, exists = np.int64(0), False
            for run in range(runs):
                at = cursor[run]
                if (at < high[run]) if up[row] else (at >= low[run]):
                    value = values[run][at]
                    if not exists or ((value < nearest) if up[row] else (value > nearest)):
                        nearest, exists = value, True
            if not exists:
                break
            alive = 0
            for run in range(runs):
                at = cursor[run]
                if up[row]:
                    while at < high[run] and values[run][at] == nearest:
                        if begins[run][at] <= now < ends[run][at]:
                            alive += counts[run][at]
                        at += 1
                        seen += 1
                else:
                    while at >= low[run] and values[run][at] == nearest:
                        if begins[run][at] <= now < ends[run][at]:
                            alive += counts[run][at]
                        at -= 1
                        seen += 1
                cursor[run] = at
            if alive < 0:
                break
            passed += alive
            if up[row] and base[row] + passed > index[row]:
                code[row], below[row] = nearest, base[row] + passed - alive
                upto[row] = base[row] + passed
                open_[row] = False
                break
            if not up[row] and base[row] - passed <= index[row]:
                code[row], below[row] = nearest, base[row] - passed
                upto[row] = base[row] - passed + alive
                open_[row] = False
                break
    return code, below, upto, open_


@compiled(INTS, INTS, INTS)
def spread(begin: Ints, stop: Ints, place: Ints) -> tuple[Ints, Ints]:
    """For ranges [begin, stop) of places: their numbers, place by place, and the place of each.

    `place` renames places. Where few ranges overlap a place the work is that of the result; the
    numbers of a place stay in order, so what was sorted need not be sorted again.

    Example: ranges [0, 2) and [1, 2) with places 1, 0 cover place 1 once (range 0) and place 0
    twice (ranges 0 and 1): places 0, 0, 1 and ranges 0, 1, 0.
    """
    count = len(place)
    free = np.zeros(count + 1, np.int64)
    total = 0
    for range_ in range(len(begin)):
        for position in range(begin[range_], stop[range_]):
            free[place[position] + 1] += 1
            total += 1
    for position in range(count):
        free[position + 1] += free[position]
    places, ranges = np.empty(total, np.int64), np.empty(total, np.int64)
    for range_ in range(len(begin)):
        for position in range(begin[range_], stop[range_]):
            at = place[position]
            entry = free[at]
            free[at] = entry + 1
            places[entry] = at
            ranges[entry] = range_
    return places, ranges


@together
def _is_text_before(data: Octets, offsets: Ints, one: int, other: int) -> bool:
    """Whether a text comes before another one, byte by byte; where one ends, it comes first."""
    at, until = offsets[one], offsets[one + 1]
    other_at, other_until = offsets[other], offsets[other + 1]
    while at < until and other_at < other_until:
        if data[at] != data[other_at]:
            return bool(data[at] < data[other_at])
        at += 1
        other_at += 1
    return bool(at == until and other_at < other_until)


@together
def _are_texts_equal(data: Octets, offsets: Ints, one: int, other: int) -> bool:
    """Whether two texts are the same; neighbours in order differ at their ends as a rule."""
    length = offsets[one + 1] - offsets[one]
    if offsets[other + 1] - offsets[other] != length:
        return False
    for back in range(1, length + 1):
        if data[offsets[one + 1] - back] != data[offsets[other + 1] - back]:
            return False
    return True


@compiled(IDS, INTS, BYTES, INTS)
def merge_texts(ids: Ids, offsets: Ints, data: Octets, cuts: Ints) -> tuple[Ints, Mask]:
    """Positions that sort parts, each sorted by id and text, and which of them begin a new value.

    Parts are `cuts[n]` to `cuts[n + 1]`, the texts `offsets[row]` to `offsets[row + 1]` of `data`.
    Rows equal in both keep their order. The last parts are merged first, and of two the rows of
    the later one (the shorter one, as runs are) gallop through the earlier one: a few rows among
    many cost their number times the logarithm of how far they are apart, and a copy of positions.
    """
    count = len(ids)
    order, merged = np.arange(count), np.empty(count, np.int64)
    for part in range(len(cuts) - 3, -1, -1):
        low, middle = cuts[part], cuts[part + 1]
        at, free = low, low
        for row in range(middle, count):
            own = order[row]
            # The first of the earlier rows that comes after this one lies in (at, high].
            step, first = 1, at
            while first + step <= middle:
                probe = first + step - 1
                if ids[probe] > ids[own] or (
                    ids[probe] == ids[own] and _is_text_before(data, offsets, own, probe)
                ):
                    break
                first += step
                step *= 2
            last = min(first + step - 1, middle)
            while first < last:
                probe = (first + last) >> 1
                if ids[probe] > ids[own] or (
                    ids[probe] == ids[own] and _is_text_before(data, offsets, own, probe)
                ):
                    last = probe
                else:
                    first = probe + 1
            while at < first:
                merged[free] = at
                at += 1
                free += 1
            merged[free] = own
            free += 1
        while at < middle:
            merged[free] = at
            at += 1
            free += 1
        order[low:] = merged[low:]
    begins = np.ones(count, np.bool_)
    for row in range(1, count):
        one, other = order[row - 1], order[row]
        begins[row] = ids[one] != ids[other] or not _are_texts_equal(data, offsets, one, other)
    return order, begins


@together
def _compared(
    data: Octets, offsets: Offsets, row: int, other_data: Octets, other: Offsets, other_row: int
) -> int:
    """-1, 0 or 1, as a text comes before another one, is the same or comes after it."""
    at, until = offsets[row], offsets[row + 1]
    other_at, other_until = other[other_row], other[other_row + 1]
    while at < until and other_at < other_until:
        if data[at] != other_data[other_at]:
            return -1 if data[at] < other_data[other_at] else 1
        at += 1
        other_at += 1
    if at == until:
        return 0 if other_at == other_until else -1
    return 1


@compiled(
    INT, _RUN_IDS, _RUN_OFFSETS, _RUN_BYTES, _RUN_INTS, _RUN_INTS, _RUN_INTS,
    IDS, INTS, INTS, INTS, OFFSETS, BYTES, INTS, MASK, INT,
)  # fmt: skip
def step_to_text(
    runs: int,
    held: tuple[Ids, ...],
    offsets: tuple[Offsets, ...],
    data: tuple[Octets, ...],
    begins: tuple[Ints, ...],
    ends: tuple[Ints, ...],
    counts: tuple[Ints, ...],
    ids: Ids,
    times: Ints,
    index: Ints,
    cut: Ints,
    cut_offsets: Offsets,
    cut_data: Octets,
    base: Ints,
    up: Mask,
    most: int,
) -> tuple[Ints, Ints, Ints, Ints, Mask]:
    """The texts at an index of what is alive: run, row, below, upto, and who is left open.

    It is `step_to` for texts: the values of a run are `offsets[row]` to `offsets[row + 1]` of its
    `data`, and `cut` is the row of a text in `cut_data`. With `up` the walk begins behind all texts
    that equal it, without it before them, and goes down.
    """
    count = len(ids)
    run_of, row_of = np.zeros(count, np.int64), np.zeros(count, np.int64)
    below, upto = np.zeros(count, np.int64), np.zeros(count, np.int64)
    open_ = np.ones(count, np.bool_)
    low, high = np.zeros(RUNS, np.int64), np.zeros(RUNS, np.int64)
    origin, cursor = np.zeros(RUNS, np.int64), np.zeros(RUNS, np.int64)
    for row in range(count):
        is_new = not row or ids[row] != ids[row - 1]
        if is_new:
            for run in range(runs):
                low[run] = np.searchsorted(held[run], ids[row], side="left")
                high[run] = np.searchsorted(held[run], ids[row], side="right")
        if is_new or cut[row] != cut[row - 1] or up[row] != up[row - 1]:
            for run in range(runs):
                first, last = low[run], high[run]
                while first < last:
                    middle = (first + last) >> 1
                    order = _compared(
                        data[run], offsets[run], middle, cut_data, cut_offsets, cut[row]
                    )
                    if order < 0 or (up[row] and order == 0):
                        first = middle + 1
                    else:
                        last = middle
                origin[run] = first if up[row] else first - 1
        for run in range(runs):
            cursor[run] = origin[run]
        seen, passed, now = 0, 0, times[row]
        while seen < most:
            # The run that has the nearest text next.
            best, nearest = -1, 0
            for run in range(runs):
                at = cursor[run]
                if (at < high[run]) if up[row] else (at >= low[run]):
                    order = 0
                    if best >= 0:
                        order = _compared(
                            data[run], offsets[run], at, data[best], offsets[best], nearest
                        )
                    if best < 0 or ((order < 0) if up[row] else (order > 0)):
                        best, nearest = run, at
            if best < 0:
                break
            alive = 0
            for run in range(runs):
                at = cursor[run]
                while (at < high[run]) if up[row] else (at >= low[run]):
                    if _compared(data[run], offsets[run], at, data[best], offsets[best], nearest):
                        break
                    if begins[run][at] <= now < ends[run][at]:
                        alive += counts[run][at]
                    at += 1 if up[row] else -1
                    seen += 1
                cursor[run] = at
            if alive < 0:
                break
            passed += alive
            if up[row] and base[row] + passed > index[row]:
                below[row], upto[row] = base[row] + passed - alive, base[row] + passed
            elif not up[row] and base[row] - passed <= index[row]:
                below[row], upto[row] = base[row] - passed, base[row] - passed + alive
            else:
                continue
            run_of[row], row_of[row], open_[row] = best, nearest, False
            break
    return run_of, row_of, below, upto, open_
