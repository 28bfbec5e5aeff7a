"""Loops over sorted columns, compiled: where numpy would need many passes or a sort.

Only large batches come here (see `columns.compiled`), so that short runs need not load the
compiler.
"""

from __future__ import annotations

import numpy as np

from anabranch.kernels.columns.compiled_groups import (
    add_up,
    add_up_events,
    cancel,
    group_rows,
    net_groups,
)
from anabranch.kernels.columns.compiled_joins import (
    held_rows,
    merge_runs,
    move_up,
    near_ranges,
    pair_rows,
    run_rows,
)
from anabranch.kernels.columns.compiled_matches import (
    both_moved,
    cancel_held,
    cancel_sorted,
    chained,
    linked,
    match_held,
    match_negative,
    match_sorted,
)
from anabranch.kernels.columns.compiled_runs import (
    around,
    meet,
    merge_order,
    positions,
    recent,
    remaining,
    search,
    set_bits,
    slices,
    survivors,
)
from anabranch.kernels.columns.compiled_sums import carry, rounded, split_floats, split_squares
from anabranch.kernels.columns.compiled_timeline import (
    changes,
    endpoints,
    lane,
    resolve,
    weave,
)
from anabranch.kernels.columns.compiled_windows import any_late, held_points, moved_ends
from anabranch.kernels.columns.grouped import Ids, Ints, Mask
from anabranch.model.numbers import compiled_words as compiled_words  # keys are hashed by it
from anabranch.model.numbers.compiled import IDS, INTS, MASK, compiled

__all__ = [
    "add_up",
    "add_up_events",
    "any_late",
    "around",
    "both_moved",
    "cancel",
    "cancel_held",
    "cancel_sorted",
    "carry",
    "chained",
    "changes",
    "endpoints",
    "group_max",
    "group_rows",
    "group_starts",
    "group_sums",
    "held_points",
    "held_rows",
    "lane",
    "last_marked",
    "leaders",
    "linked",
    "match_held",
    "match_negative",
    "match_sorted",
    "meet",
    "merge_order",
    "merge_runs",
    "move_up",
    "moved_ends",
    "near_ranges",
    "net_groups",
    "next_marked",
    "pair_rows",
    "positions",
    "recent",
    "remaining",
    "resolve",
    "rounded",
    "run_rows",
    "search",
    "set_bits",
    "slices",
    "split_floats",
    "split_squares",
    "survivors",
    "weave",
]


# Columns of some megabytes come and go with every step. Giving back one large block tells the C
# library so (see `mallopt`, M_MMAP_THRESHOLD): else it asks the system for fresh pages each time,
# and up to a third of a step is spent on that.
del (_block := [np.empty(2**25 - 2**16, np.uint8)])[:]


@compiled(INTS, INTS)
def group_sums(values: Ints, group_start: Ints) -> Ints:
    """Running sums that begin anew at every group."""
    result = np.empty(len(values), np.int64)
    total = 0
    for row in range(len(values)):
        if group_start[row] == row:
            total = 0
        total += values[row]
        result[row] = total
    return result


@compiled(INTS, IDS, IDS, INTS)
def leaders(start: Ints, ids: Ids, check: Ids, order: Ints) -> tuple[Mask, Mask]:
    """By start: the first row of every identity, and all rows of starts with many identities.

    Within a start each row is compared with the earlier first ones, which is quadratic; with more
    than 8 identities, or a second one after 64 rows, the start is given up as `mixed` and the
    caller sorts its rows. So a start costs at most about 8 comparisons per row here.
    """
    first = np.empty(len(order), np.bool_)
    mixed = np.zeros(len(order), np.bool_)
    begin = several = 0
    for row in range(len(order)):
        at = order[row]
        if row == 0 or start[at] != start[order[begin]]:
            begin, several, first[row] = row, 1, True
        elif mixed[begin]:
            mixed[row] = True
        else:
            new = True
            for earlier in range(begin, row):
                other = order[earlier]
                if first[earlier] and ids[at] == ids[other] and check[at] == check[other]:
                    new = False
                    break
            first[row] = new
            several += new
            if several > 8 or (several > 1 and row > begin + 64):
                mixed[begin : row + 1] = True
    return first, mixed


@compiled(MASK)
def group_starts(first: Mask) -> Ints:
    """For every row the position of the first row of its group."""
    result = np.empty(len(first), np.int64)
    start = 0
    for row in range(len(first)):
        if first[row]:
            start = row
        result[row] = start
    return result


@compiled(MASK, INTS)
def last_marked(marked: Mask, group_start: Ints) -> Ints:
    """For every row the nearest marked row at or before it in its group, or -1."""
    result = np.empty(len(marked), np.int64)
    latest = -1
    for row in range(len(marked)):
        if group_start[row] == row:
            latest = -1
        if marked[row]:
            latest = row
        result[row] = latest
    return result


@compiled(MASK, MASK)
def next_marked(marked: Mask, last: Mask) -> Ints:
    """For every row the nearest marked row after it in its group, or -1."""
    result = np.empty(len(marked), np.int64)
    following = -1
    for row in range(len(marked) - 1, -1, -1):
        if last[row]:
            following = -1
        result[row] = following
        if marked[row]:
            following = row
    return result


@compiled(INTS, INTS)
def group_max(values: Ints, group_start: Ints) -> Ints:
    """The largest value so far, anew in every group."""
    result = np.empty(len(values), np.int64)
    for row in range(len(values)):
        value = values[row]
        if group_start[row] != row and result[row - 1] > value:
            value = result[row - 1]
        result[row] = value
    return result
