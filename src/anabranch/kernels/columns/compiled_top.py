"""The first k rows of groups over time, compiled: one sweep over all that comes and goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numpy as np
from numba import njit, types

from anabranch.kernels.columns.compiled_contenders import contenders, like
from anabranch.kernels.columns.grouped import Ints, Mask

__all__ = ["contenders", "like", "sweep"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_INT: Final = types.int64
_INTS: Final = types.Array(types.int64, 1, "C", readonly=True)
_MASK: Final = types.Array(types.boolean, 1, "C", readonly=True)

# A *rank* is the code of a row minus the first code of its group: 0 is the best row of the group.
# The edge of the first k: the worst rank inside, how many of its copies are inside, how many rows
# are inside in all; and how many ranks have been noted at this instant. Two invariants between
# calls: inside <= k, and inside < k only if all alive rows are inside (then copies == alive[last]).
_LAST, _COPIES, _INSIDE, _NOTED = 0, 1, 2, 3

_State = tuple[Ints, Ints, Mask, Ints, Ints, Mask]
"""The edge; how many rows of each rank are alive, and the set of ranks with alive rows; by how much
the copies of a rank inside the first k change at this instant, and the ranks where that may be so,
as a list and as marks."""


def _compiled(*arguments: types.Type) -> Callable[[_Function], _Function]:
    """Compile for these types, once per machine."""

    def decorate(function: _Function) -> _Function:
        try:
            return cast(_Function, njit(arguments, cache=True, nogil=True)(function))
        except RuntimeError:
            # There is no folder for compiled code, as where the package lies in an archive.
            return cast(_Function, njit(arguments, nogil=True)(function))

    return decorate


def _part(function: _Function) -> _Function:
    """Compile together with what uses it."""
    return cast(_Function, njit(forceinline=True)(function))


# A set of ranks is a binary tree of marks: a node is marked while a rank below it is in the set.
# The root is node 1, rank r is the leaf `size + r`, the children of node n are 2n and 2n + 1. All
# is O(log size): marks change only as far up as they have to, and the nearest neighbour of a rank
# is found by going up to the first marked sibling and down again. Example with size 4 and the set
# {0, 3}: marked are 4 and 7 (leaves), 2 and 3, 1. After 0: from 4 up to 2, whose sibling 3 is
# marked, down to 7: rank 3.


@_part
def _occupy(tree: Mask, size: int, rank: int) -> None:
    node = size + rank
    while node and not tree[node]:
        tree[node] = True
        node >>= 1


@_part
def _vacate(tree: Mask, size: int, rank: int) -> None:
    node = size + rank
    tree[node] = False
    node >>= 1
    while node and not (tree[2 * node] or tree[2 * node + 1]):
        tree[node] = False
        node >>= 1


@_part
def _first(tree: Mask, size: int) -> int:
    """The smallest rank of a set, or -1."""
    if not tree[1]:
        return -1
    node = 1
    while node < size:
        node = 2 * node if tree[2 * node] else 2 * node + 1
    return node - size


@_part
def _last(tree: Mask, size: int) -> int:
    """The largest rank of a set, or -1."""
    if not tree[1]:
        return -1
    node = 1
    while node < size:
        node = 2 * node + 1 if tree[2 * node + 1] else 2 * node
    return node - size


@_part
def _following(tree: Mask, size: int, rank: int) -> int:
    """The next larger rank of a set, or -1."""
    node = size + rank
    while node > 1 and (node & 1 or not tree[node + 1]):
        node >>= 1
    if node <= 1:
        return -1
    node += 1
    while node < size:
        node = 2 * node if tree[2 * node] else 2 * node + 1
    return node - size


@_part
def _preceding(tree: Mask, size: int, rank: int) -> int:
    """The next smaller rank of a set, or -1."""
    node = size + rank
    while node > 1 and not (node & 1 and tree[node - 1]):
        node >>= 1
    if node <= 1:
        return -1
    node -= 1
    while node < size:
        node = 2 * node + 1 if tree[2 * node + 1] else 2 * node
    return node - size


@_part
def _note(state: _State, rank: int, more: int) -> None:
    """Add to the change of a rank among the first k, compared with before the batch."""
    edge, change, noted, is_noted = state[0], state[3], state[4], state[5]
    if not is_noted[rank]:
        is_noted[rank] = True
        noted[edge[_NOTED]] = rank
        edge[_NOTED] += 1
    change[rank] += more


@_part
def _fill(k: int, state: _State, size: int) -> None:
    """Let the next alive rows in while fewer than k are inside."""
    edge, alive, tree = state[0], state[1], state[2]
    while edge[_INSIDE] < k:
        last = edge[_LAST]
        if last < 0 or edge[_COPIES] == alive[last]:
            last = _first(tree, size) if last < 0 else _following(tree, size, last)
            if last < 0:
                return
            edge[_LAST] = last
            edge[_COPIES] = 0
        more = min(k - edge[_INSIDE], alive[last] - edge[_COPIES])
        edge[_COPIES] += more
        edge[_INSIDE] += more
        _note(state, last, more)


@_part
def _come(k: int, state: _State, size: int, rank: int, copies: int) -> None:
    """Rows come alive; those that they push behind the first k leave them."""
    edge, alive, tree = state[0], state[1], state[2]
    if not alive[rank]:
        _occupy(tree, size, rank)
    alive[rank] += copies
    if rank >= edge[_LAST]:
        _fill(k, state, size)
        return
    edge[_INSIDE] += copies
    _note(state, rank, copies)
    while edge[_INSIDE] > k:
        last = edge[_LAST]
        less = min(edge[_INSIDE] - k, edge[_COPIES])
        edge[_COPIES] -= less
        edge[_INSIDE] -= less
        _note(state, last, -less)
        if not edge[_COPIES]:
            last = _preceding(tree, size, last)
            edge[_LAST] = last
            edge[_COPIES] = alive[last]


@_part
def _go(k: int, state: _State, size: int, rank: int, copies: int) -> None:
    """Rows are alive no more; the next alive ones move up among the first k."""
    edge, alive, tree = state[0], state[1], state[2]
    alive[rank] -= copies
    if not alive[rank]:
        _vacate(tree, size, rank)
    last = edge[_LAST]
    if rank > last:
        return
    less = copies
    if rank == last:
        # Of equal rows those behind the first k go first.
        less = max(edge[_COPIES] - alive[rank], 0)
        edge[_COPIES] -= less
    edge[_INSIDE] -= less
    _note(state, rank, -less)
    if rank == last and not edge[_COPIES]:
        last = _preceding(tree, size, last)
        edge[_LAST] = last
        edge[_COPIES] = alive[last] if last >= 0 else 0
    _fill(k, state, size)


@_part
def _longer(values: Ints) -> Ints:
    result = np.empty(2 * len(values), np.int64)
    result[: len(values)] = values
    return result


@_part
def _by_group(owner: Ints, groups: int, by_time: Ints) -> tuple[Ints, Ints]:
    """Entries by group, in their order, and where each group begins."""
    length = len(owner)
    starts = np.zeros(groups + 1, np.int64)
    for row in range(length):
        starts[owner[row] + 1] += 2
    for group in range(groups):
        starts[group + 1] += starts[group]
    free = starts.copy()
    order = np.empty(2 * length, np.int64)
    for entry in by_time:
        group = owner[entry - length if entry >= length else entry]
        order[free[group]] = entry
        free[group] += 1
    return order, starts


@_compiled(_INT, _INTS, _MASK, _INTS, _INTS, _INTS, _INTS, _INTS, _INT, _INT, _INTS)
def sweep(
    k: int,
    first_code: Ints,
    shrinks: Mask,
    owner: Ints,
    code: Ints,
    begin: Ints,
    finish: Ints,
    count: Ints,
    held: int,
    moved: int,
    by_time: Ints,
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, bool]:
    """What changes among the first k of groups: codes, instants, and how many more from then on.

    Rows hold from `begin` to `finish` (take away where that runs backwards): at first `held` rows
    that were among the first k, then `moved` ones of the batch, then all that is alive where the
    first two do not tell. `by_time` sorts their begins, then their ends (numbers from the number
    of rows on). The codes of a group begin at `first_code`, which goes one further than groups.

    Also the ranges in which a row of a full group has gone, so that only all rows tell which one
    follows (group, from, to), and whether something went that was never there. Both are looked
    for in groups where something `shrinks`.
    """
    length, groups = len(owner), len(first_code) - 1
    order, starts = _by_group(owner, groups, by_time)
    most = 1
    for group in range(groups):
        most = max(most, first_code[group + 1] - first_code[group])
    room = 1
    while room < most:
        room *= 2
    old, new, more = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64)
    alive, change = np.zeros(most, np.int64), np.zeros(most, np.int64)
    noted, is_noted = np.zeros(most, np.int64), np.zeros(most, np.bool_)
    # All rows end, so that these are empty again after every group.
    tree, old_tree = np.zeros(2 * room, np.bool_), np.zeros(2 * room, np.bool_)
    below_tree = np.zeros(2 * room, np.bool_)
    edge = np.zeros(4, np.int64)
    state = (edge, alive, tree, change, noted, is_noted)
    codes, times = np.empty(length + 1, np.int64), np.empty(length + 1, np.int64)
    changes = np.empty(length + 1, np.int64)
    lost_group, lost_low = np.empty(16, np.int64), np.empty(16, np.int64)
    lost_high = np.empty(16, np.int64)
    found, lost = 0, 0
    unknown = False
    for group in range(groups):
        base = first_code[group]
        size = 1
        while size < first_code[group + 1] - base:
            size *= 2
        edge[_LAST], edge[_COPIES], edge[_INSIDE], edge[_NOTED] = -1, 0, 0, 0
        total = 0
        spot, stop = starts[group], starts[group + 1]
        while spot < stop:
            entry = order[spot]
            now = finish[entry - length] if entry >= length else begin[entry]
            while spot < stop:
                entry = order[spot]
                row = entry - length if entry >= length else entry
                if (finish[row] if entry >= length else begin[row]) != now:
                    break
                spot += 1
                weight = -count[row] if entry >= length else count[row]
                rank = code[row] - base
                if row < held:
                    old[rank] += weight
                    total += weight
                    _note(state, rank, -weight)
                elif row < held + moved:
                    new[rank] += weight
                else:
                    more[rank] += weight
                there = old[rank] + new[rank]
                if shrinks[group]:
                    if (old[rank] > 0) != old_tree[size + rank]:
                        if old[rank] > 0:
                            _occupy(old_tree, size, rank)
                        else:
                            _vacate(old_tree, size, rank)
                    if (there < 0) != below_tree[size + rank]:
                        if there < 0:
                            _occupy(below_tree, size, rank)
                        else:
                            _vacate(below_tree, size, rank)
                # Of a row that is not among the first k, only what the batch brings is known.
                there = max(there, more[rank], 0)
                if there > alive[rank]:
                    _come(k, state, size, rank, there - alive[rank])
                elif there < alive[rank]:
                    _go(k, state, size, rank, alive[rank] - there)
            for number in range(edge[_NOTED]):
                rank = noted[number]
                is_noted[rank] = False
                if change[rank]:
                    if found == len(codes):
                        codes, times, changes = _longer(codes), _longer(times), _longer(changes)
                    codes[found], times[found] = base + rank, now
                    changes[found] = change[rank]
                    change[rank] = 0
                    found += 1
            edge[_NOTED] = 0
            if not shrinks[group] or spot == stop:
                continue
            lowest = _first(below_tree, size)
            if total < k:
                unknown = unknown or lowest >= 0
                continue
            worst = _last(old_tree, size)
            unknown = unknown or 0 <= lowest < worst
            if edge[_INSIDE] == k and edge[_LAST] <= worst:
                continue
            entry = order[spot]
            until = finish[entry - length] if entry >= length else begin[entry]
            if lost and lost_group[lost - 1] == group and lost_high[lost - 1] == now:
                lost_high[lost - 1] = until
                continue
            if lost == len(lost_group):
                lost_group, lost_low = _longer(lost_group), _longer(lost_low)
                lost_high = _longer(lost_high)
            lost_group[lost], lost_low[lost], lost_high[lost] = group, now, until
            lost += 1
    return (
        codes[:found],
        times[:found],
        changes[:found],
        lost_group[:lost],
        lost_low[:lost],
        lost_high[:lost],
        unknown,
    )
