"""Breakpoints: the instants of a key where its timeline has a row or a move has an end.

A timeline is a piecewise constant function of time, stored as the rows where its value changes.
A move of an end from `end` to `new_end` adds its weight to the function between the two instants
(with the opposite sign where `new_end < end`). So before and after a batch the function is constant
between neighbouring breakpoints, and all that follows is work on arrays with one entry per
breakpoint: running sums instead of interval arithmetic.

Example: a key counts 1 from 10, 2 from 20 and 0 from 30 on; one move of weight 1 goes from 12 to
25.

    breakpoint    10  12  20  25  30
    row stored     x       x       x     old_row
    move covers        x   x             touched: from here up to the next breakpoint
    stored row     0   0   1   1   2     source: the stored row in force, -1 before the first
    count before   1   1   2   2   0
    count after    1   2   3   2   0     + running sum of weights (0, +1, +1, 0, 0)

Cost: one sort of the ends of moves by key and time; the rest is a merge of two sorted lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    Mask,
    group_starts,
    group_sums,
    is_first,
    is_last,
    last_marked,
    order_by_id,
    order_by_id_and_time,
)
from anabranch.model.time import FOREVER


@final
@dataclass(frozen=True, slots=True, eq=False)
class MoveEnds:
    """The 2n ends of n moves by key and time, and how many moves cover what follows each.

    Entry m < n is the old end of move m, entry n + m its new end. `covers` is 0 exactly where an
    island ends; a move that stays where it is (`end == new_end`) covers nothing.
    """

    entries: Ints
    ids: Ids
    times: Ints
    covers: Ints


@final
@dataclass(frozen=True, slots=True, eq=False)
class Islands:
    """Maximal stretches [low, high] that the moves of a key cover without a gap.

    Stretches of one key are disjoint and in order; `move` is a move of the key. Moves 12 -> 18 and
    25 -> 40 of one key make the islands [12, 18] and [25, 40]; a third one, 18 -> 30, joins them.
    """

    ids: Ids
    low: Ints
    high: Ints
    move: Ints

    def take(self, rows: Ints) -> Islands:
        """The islands at these positions."""
        return Islands(self.ids[rows], self.low[rows], self.high[rows], self.move[rows])


def endpoints(ids: Ids, end: Ints, new_end: Ints) -> tuple[MoveEnds, Islands]:
    """The ends of moves in order, and the islands that they cover."""
    if columns.is_compiled(len(ids)):
        found = columns.native().endpoints(order_by_id(ids), ids, end, new_end)
        return MoveEnds(*found[:4]), Islands(*found[4:])
    grows = (new_end > end).astype(np.int64) - (new_end < end)
    moved = max(len(ids), 1)
    ids, times = np.tile(ids, 2), np.concatenate([end, new_end])
    entries = order_by_id_and_time(ids, times)
    ids, times = ids[entries], times[entries]
    first = is_first(ids)
    covers = group_sums(np.concatenate([grows, -grows])[entries], group_starts(first))
    begin = first.copy()
    begin[1:] |= (covers[:-1] == 0) & (times[1:] != times[:-1])
    last = np.append(begin[1:], True) if len(begin) else begin
    islands = Islands(ids[begin], times[begin], times[last], entries[begin] % moved)
    return MoveEnds(entries, ids, times, covers), islands


@final
@dataclass(frozen=True, slots=True, eq=False)
class Breakpoints:
    """The instants where a row is stored or a move has an end, by key and time, each once.

    Attributes:
        ids: Keys, ascending.
        times: Instants, ascending within a key.
        first: Marks the first breakpoint of each key.
        last: Marks the last breakpoint of each key.
        touched: A move covers the segment from here to the next breakpoint.
        old_row: A row is stored here.
        complete: Both neighbours in the arrays are the true ones, so the segment that starts here
        is
            fully seen. The row behind an island is read only as its right border: what follows it
            was not read, so that row is not complete.
        source: The stored row in force here, -1 before the first one.
        move: The first move of the key.
        held_index: Per stored row the index of its breakpoint.
        end_index: Per move the index of the breakpoint at its old end.
        new_end_index: Per move the index of the breakpoint at its new end.
    """

    ids: Ids
    times: Ints
    first: Mask
    last: Mask
    touched: Mask
    old_row: Mask
    complete: Mask
    source: Ints
    move: Ints
    held_index: Ints
    end_index: Ints
    new_end_index: Ints


def weave(held_ids: Ids, held_times: Ints, sure: Mask, ends: MoveEnds) -> Breakpoints:
    """Merge stored rows and the ends of moves; `sure` rows have their true neighbours.

    >>> ends, _ = endpoints(np.array([7], np.uint64), np.array([12]), np.array([25]))
    >>> rows, sure = np.array([10, 20, 30]), np.array([True, True, False])
    >>> points = weave(np.array([7, 7, 7], np.uint64), rows, sure, ends)
    >>> points.times.tolist(), points.source.tolist(), np.flatnonzero(points.touched).tolist()
    ([10, 12, 20, 25, 30], [0, 0, 1, 1, 2], [1, 2])
    >>> [lane.tolist() for lane in lane_at(np.array([1, 2, 0]), np.array([1]), points)]
    [[1, 1, 2, 2, 0], [1, 2, 3, 2, 0]]
    """
    held, moved = len(held_ids), len(ends.entries) // 2
    if columns.is_compiled(held + 2 * moved):
        entries = (ends.entries, ends.ids, ends.times, ends.covers)
        woven = columns.native().weave(held_ids, held_times, sure, *entries, int(FOREVER))
        return Breakpoints(*woven)
    ids = np.concatenate([held_ids, ends.ids])
    times = np.concatenate([held_times, ends.times])
    order = np.lexsort((times, ids))
    first_here = is_first(ids[order], times[order])
    index = np.empty(len(order), np.int64)
    numbers = np.concatenate([np.arange(held), ends.entries + held])[order]
    index[numbers] = np.cumsum(first_here) - 1
    at, when = ids[order[first_here]], times[order[first_here]]
    first = is_first(at)
    starts = group_starts(first)
    held_index, end_index, new_end_index = np.split(index, [held, held + moved])
    cover = np.zeros(len(at), np.int64)
    np.add.at(cover, np.minimum(end_index, new_end_index), 1)
    np.add.at(cover, np.maximum(end_index, new_end_index), -1)
    old_row = np.zeros(len(at), np.bool_)
    old_row[held_index] = True
    complete = np.zeros(len(at), np.bool_)
    complete[np.concatenate([held_index[sure], end_index, new_end_index])] = True
    row_at = np.full(len(at), -1, np.int64)
    row_at[held_index] = np.arange(held)
    marked = last_marked(old_row, starts)
    move = np.full(len(at), moved)
    np.minimum.at(move, starts[end_index], np.arange(moved))
    return Breakpoints(
        ids=at,
        times=when,
        first=first,
        last=is_last(at),
        touched=(group_sums(cover, starts) > 0) & (when != FOREVER),
        old_row=old_row,
        complete=complete,
        source=np.where(marked >= 0, row_at[marked], -1) if len(at) else marked,
        move=move[starts],
        held_index=held_index,
        end_index=end_index,
        new_end_index=new_end_index,
    )


def lane_at(held: Ints, weight: Ints, points: Breakpoints) -> tuple[Ints, Ints]:
    """A lane of whole numbers at all breakpoints, before and after the moves."""
    length = len(points.ids)
    if columns.is_compiled(length):
        found: tuple[Ints, Ints] = columns.native().lane(
            held,
            points.source,
            weight,
            points.end_index,
            points.new_end_index,
            points.first,
            points.touched,
        )
        return found
    old = filled(held, points.source)
    delta = np.zeros(length, np.int64)
    np.add.at(delta, points.end_index, weight)
    np.subtract.at(delta, points.new_end_index, weight)
    change = group_sums(delta, group_starts(points.first))
    return old, old + np.where(points.touched, change, 0)


def filled(values: np.ndarray, source: Ints) -> np.ndarray:
    """The stored value in force at each breakpoint, 0 before the first row."""
    if not len(values):
        return np.zeros(len(source), values.dtype)
    return np.where(source >= 0, values[source], values.dtype.type(0))
