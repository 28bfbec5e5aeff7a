"""Places in time where moves begin and end, woven together with what is held there."""

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
    """The ends of all moves by key and time, and how many moves cover what follows each.

    An entry is the number of a move for its old end, and for its new end as much more as there
    are moves.
    """

    entries: Ints
    ids: Ids
    times: Ints
    covers: Ints


@final
@dataclass(frozen=True, slots=True, eq=False)
class Islands:
    """Stretches of time that moves cover: keys, first and last instants, a move of the key."""

    ids: Ids
    low: Ints
    high: Ints
    move: Ints

    def take(self, rows: Ints) -> Islands:
        """Some of them."""
        return Islands(self.ids[rows], self.low[rows], self.high[rows], self.move[rows])


def endpoints(ids: Ids, end: Ints, new_end: Ints) -> tuple[MoveEnds, Islands]:
    """Where moves begin and end, in order."""
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
class Places:
    """Where something is held or a move has an end, by key and time.

    `first` and `last` mark keys; a `touched` place is covered by a move up to the next one; an
    `old_row` is held; a `known` place has its true neighbours. `source` is the held row that counts
    at a place (-1: none), `move` the first move of its key. Then where held rows, old ends and new
    ends are.
    """

    ids: Ids
    times: Ints
    first: Mask
    last: Mask
    touched: Mask
    old_row: Mask
    known: Mask
    source: Ints
    move: Ints
    held: Ints
    end: Ints
    new_end: Ints


def weave(held_ids: Ids, held_times: Ints, sure: Mask, ends: MoveEnds) -> Places:
    """Places out of what is held and the ends of moves; `sure` rows have their true neighbours."""
    held, moved = len(held_ids), len(ends.entries) // 2
    if columns.is_compiled(held + 2 * moved):
        entries = (ends.entries, ends.ids, ends.times, ends.covers)
        woven = columns.native().weave(held_ids, held_times, sure, *entries, int(FOREVER))
        return Places(*woven)
    ids = np.concatenate([held_ids, ends.ids])
    times = np.concatenate([held_times, ends.times])
    order = np.lexsort((times, ids))
    first_here = is_first(ids[order], times[order])
    place = np.empty(len(order), np.int64)
    numbers = np.concatenate([np.arange(held), ends.entries + held])[order]
    place[numbers] = np.cumsum(first_here) - 1
    at, when = ids[order[first_here]], times[order[first_here]]
    first = is_first(at)
    starts = group_starts(first)
    held_place, end_place, new_end_place = np.split(place, [held, held + moved])
    cover = np.zeros(len(at), np.int64)
    np.add.at(cover, np.minimum(end_place, new_end_place), 1)
    np.add.at(cover, np.maximum(end_place, new_end_place), -1)
    old_row = np.zeros(len(at), np.bool_)
    old_row[held_place] = True
    known = np.zeros(len(at), np.bool_)
    known[np.concatenate([held_place[sure], end_place, new_end_place])] = True
    row_at = np.full(len(at), -1, np.int64)
    row_at[held_place] = np.arange(held)
    marked = last_marked(old_row, starts)
    move = np.full(len(at), moved)
    np.minimum.at(move, starts[end_place], np.arange(moved))
    return Places(
        ids=at,
        times=when,
        first=first,
        last=is_last(at),
        touched=(group_sums(cover, starts) > 0) & (when != FOREVER),
        old_row=old_row,
        known=known,
        source=np.where(marked >= 0, row_at[marked], -1) if len(at) else marked,
        move=move[starts],
        held=held_place,
        end=end_place,
        new_end=new_end_place,
    )


def lane_at(held: Ints, weight: Ints, places: Places) -> tuple[Ints, Ints]:
    """A whole lane at all places, before and after."""
    length = len(places.ids)
    if columns.is_compiled(length):
        found: tuple[Ints, Ints] = columns.native().lane(
            held, places.source, weight, places.end, places.new_end, places.first, places.touched
        )
        return found
    old = filled(held, places.source)
    delta = np.zeros(length, np.int64)
    np.add.at(delta, places.end, weight)
    np.subtract.at(delta, places.new_end, weight)
    change = group_sums(delta, group_starts(places.first))
    return old, old + np.where(places.touched, change, 0)


def filled(values: np.ndarray, source: Ints) -> np.ndarray:
    """The held value that counts at each place, 0 where there is none."""
    if not len(values):
        return np.zeros(len(source), values.dtype)
    return np.where(source >= 0, values[source], values.dtype.type(0))
