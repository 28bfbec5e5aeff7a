"""Add up the moves of a batch, so that each event moves at most once."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from anabranch.model.batch import EventBatch, take_rows
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.time import TimeArray

Positions: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Words: TypeAlias = npt.NDArray[np.uint64]


def net(batch: EventBatch) -> EventBatch:
    """The same change of the stream in as few moves as possible, at most one per event.

    The moves of all events with one payload and one start are added up: an insert that is adjusted
    in the same batch becomes one insert, one that is withdrawn leaves nothing, a chain of adjusts
    becomes one. Ends that were left and ends that were reached are paired in the order of time;
    where one side is longer, the rest are inserts or withdrawals. If the rows of the batch are
    legal after a stable point, so are those of the result.

    The result does not depend on the order of the rows: they come by start, and are in one fixed
    order within one start. The stable point is kept.
    """
    moved = batch.where(batch.end != batch.new_end)
    if (moved.start[1:] > moved.start[:-1]).all():
        return moved
    order, is_new = _events(moved)
    if is_new.all():
        return moved.take(order)
    rows, old, new = _added_up(moved.start, moved.end, moved.new_end, order, is_new)
    return moved.take(rows).with_ends(old, new)


def net_moves(
    start: TimeArray, end: TimeArray, new_end: TimeArray, hashes: tuple[Words, Words]
) -> tuple[Positions, TimeArray, TimeArray]:
    """The same for moves whose payloads are known by two independent hashes.

    Gives positions of some of the rows, each once, and from where to where their ends move.
    """
    first, second = hashes
    order = np.lexsort((second, first, start))
    is_new = _changes(start[order], first[order], second[order])
    return _added_up(start, end, new_end, order, is_new)


def _events(batch: EventBatch) -> tuple[Positions, Flags]:
    """An order that brings equal (start, payload) together, and where in it a new one begins."""
    order = np.argsort(batch.start, kind="stable")
    is_new = _changes(batch.start[order])
    tied = _neighbours(is_new)
    if len(tied):
        rows = order[tied]
        start, payload = batch.start[rows], take_rows(batch.payload, rows)
        first = stable_hash(payload.columns, len(rows))
        again = np.lexsort((first, start))
        order[tied] = rows[again]
        is_new[tied] = _changes(start[again], first[again])
        # Both hashes of two payloads are equal once in 2^128 pairs: less often than memory fails.
        tied = _neighbours(is_new)
        rows = order[tied]
        payload = take_rows(batch.payload, rows)
        first, second = (stable_hash(payload.columns, len(rows), salt) for salt in (0, 1))
        start = batch.start[rows]
        again = np.lexsort((batch.new_end[rows], batch.end[rows], second, first, start))
        order[tied] = rows[again]
        is_new[tied] = _changes(start[again], first[again], second[again])
    return order, is_new


def _changes(*sorted_columns: npt.NDArray[np.int64] | npt.NDArray[np.uint64]) -> Flags:
    """Which rows differ from the row before them."""
    result = np.zeros(len(sorted_columns[0]), np.bool_)
    result[:1] = True
    for column in sorted_columns:
        result[1:] |= column[1:] != column[:-1]
    return result


def _neighbours(is_new: Flags) -> Positions:
    """The positions of all rows that are like the row before or behind them."""
    tied = ~is_new
    tied[:-1] |= ~is_new[1:]
    return np.flatnonzero(tied)


def _added_up(
    start: TimeArray, end: TimeArray, new_end: TimeArray, order: Positions, is_new: Flags
) -> tuple[Positions, TimeArray, TimeArray]:
    """Net moves, given an order in which those of each event follow each other.

    An event has at most as many moves afterwards as before, so each gets a row of its own.
    """
    group = np.cumsum(is_new) - 1
    first = np.flatnonzero(is_new)
    count = np.ones(len(first), np.int64)
    # Events that moved once stay as they are.
    tied = _neighbours(is_new)
    rows = order[tied]
    groups, ends, change = _end_changes(start[rows], end[rows], new_end[rows], group[tied])
    left, reached = np.maximum(-change, 0), np.maximum(change, 0)
    several = group[tied]
    count[several] = np.maximum(
        np.bincount(groups, left, len(first)), np.bincount(groups, reached, len(first))
    )[several]
    offset = np.cumsum(count) - count
    owner = np.repeat(np.arange(len(first)), count)
    rows = order[first[owner] + np.arange(len(owner)) - offset[owner]]
    old, new = end[rows], new_end[rows]
    # Where nothing is left or reached, the end is the start: an insert or a withdrawal.
    is_netted = np.zeros(len(first), np.bool_)
    is_netted[several] = True
    netted = is_netted[owner]
    old[netted] = new[netted] = start[rows[netted]]
    for ends_of, amount in ((old, left), (new, reached)):
        owner, value = np.repeat(groups, amount), np.repeat(ends, amount)
        ends_of[offset[owner] + _rank(owner)] = value
    return rows, old, new


def _end_changes(
    start: TimeArray, end: TimeArray, new_end: TimeArray, group: Positions
) -> tuple[Positions, TimeArray, npt.NDArray[np.int64]]:
    """How many more events of each group end at each time: (group, end, change), without zeros."""
    leaves, reaches = end != start, new_end != start
    groups = np.concatenate([group[leaves], group[reaches]])
    ends = np.concatenate([end[leaves], new_end[reaches]])
    change = np.repeat([-1, 1], [np.count_nonzero(leaves), np.count_nonzero(reaches)])
    order = np.lexsort((ends, groups))
    groups, ends = groups[order], ends[order]
    is_new = _changes(groups, ends)
    total = np.add.reduceat(change[order], np.flatnonzero(is_new))
    keep = total != 0
    return groups[is_new][keep], ends[is_new][keep], total[keep]


def _rank(owner: Positions) -> Positions:
    """The number of each entry among those of its owner; owners come in ascending order."""
    return np.arange(len(owner)) - np.searchsorted(owner, owner)
