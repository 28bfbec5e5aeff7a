"""Corrections of settled snapshots: numbered, whole, and of what really changed only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import numpy.typing as npt

from anabranch.model.batch import EventBatch
from anabranch.model.netting import net
from anabranch.model.numbers.hashing import stable_hash, stable_hashes
from anabranch.model.time import BEGINNING, FOREVER, Time, TimeArray


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Revision:
    """A correction of what a stream has settled, in force as a whole or not at all.

    A change is about snapshots, not about events: an insert of a payload for `[s, e)` adds it to
    all snapshots there, a withdrawal (from `e` back to `s`) takes it out of them, however the
    lifetimes that hold there were cut. So changes commute and add up.

    Attributes:
        number: Revisions of a stream count up from 1.
        first: No snapshot before this instant changes.
        last: No snapshot from this instant on changes; at most the stable point.
        changes: What changes, in the form that `snapshot_changes` gives it.
    """

    number: int
    first: Time
    last: Time
    changes: EventBatch

    @staticmethod
    def of(number: int, moves: EventBatch) -> Revision | None:
        """The revision that these moves add up to; None if that is nothing."""
        changes = snapshot_changes(moves)
        if not len(changes):
            return None
        ends = np.maximum(changes.end, changes.new_end)
        return Revision(
            number=number,
            first=Time(int(changes.start.min())),
            last=Time(int(ends.max())),
            changes=changes,
        )


def snapshot_changes(moves: EventBatch) -> EventBatch:
    """What moves change in the snapshots, in one form: withdrawals and inserts of whole stretches.

    Each move adds its payload once from its old end to its new one, or takes it out where it goes
    back. Added up per payload this is a step function of time; each longest stretch with one value
    k becomes k inserts, or -k withdrawals. So moves with the same effect give the same rows, and
    moves that cancel each other give none. Rows come by start, withdrawals first.

    Example: an insert for [2, 9) and a withdrawal for [4, 6) of the same payload become inserts
    for [2, 4) and [6, 9).
    """
    moves = moves.where(moves.end != moves.new_end)
    if not len(moves):
        return moves.with_stable(BEGINNING)
    apart = _apart(moves)
    if apart is not None:
        return apart
    words = stable_hashes(moves.payload.columns, len(moves), (0, 1))
    row = np.tile(np.arange(len(moves)), 2)
    time: TimeArray = np.concatenate([moves.end, moves.new_end])
    change = np.repeat(np.array([1, -1], np.int64), len(moves))
    # Both hashes of two payloads are equal once in 2^128 pairs: less often than memory fails.
    first, second = (word[row] for word in words)
    order = np.lexsort((time, second, first))
    row, time, first, second = row[order], time[order], first[order], second[order]
    other_payload = _differs(first) | _differs(second)
    is_step = other_payload | _differs(time)
    steps = np.flatnonzero(is_step)
    total = np.add.reduceat(change[order], steps)
    # The changes of a payload add up to 0, so one running sum serves all of them.
    level = np.cumsum(total)
    row, time, other_payload = row[steps], time[steps], other_payload[steps]
    # A stretch goes on where the level does not change.
    keep = (total != 0) | other_payload
    row, time, level = row[keep], time[keep], level[keep]
    until = np.append(time[1:], np.int64(FOREVER))
    count = np.abs(level)
    spans = np.repeat(np.arange(len(level)), count)
    start, end, sign = time[spans], until[spans], level[spans] > 0
    found = moves.take(row[spans])
    found = replace(
        found,
        start=start,
        end=np.where(sign, start, end),
        new_end=np.where(sign, end, start),
        stable=BEGINNING,
    )
    return found.take(np.lexsort((found.new_end, sign, start)))


def _apart(moves: EventBatch) -> EventBatch | None:
    """The changes of moves of which no two touch in time, whatever their payloads; None if some do.

    Most corrections are of one row, or of a few: then there is nothing to add up.
    """
    low, high = np.minimum(moves.end, moves.new_end), np.maximum(moves.end, moves.new_end)
    if len(moves) > 1:
        order = np.argsort(low)
        moves, low, high = moves.take(order), low[order], high[order]
        if (low[1:] <= high[:-1]).any():
            return None
    return replace(moves, start=low, stable=BEGINNING)


def clipped_changes(changes: EventBatch, first: Time, last: Time) -> EventBatch:
    """What changes say of the snapshots in `[first, last)`."""
    low, high = (np.clip(ends, first, last) for ends in (changes.end, changes.new_end))
    inside = low != high
    start = np.minimum(low, high)
    return replace(changes, start=start, end=low, new_end=high).where(inside)


def rebased(events: EventBatch, changes: EventBatch) -> EventBatch:
    """The moves that bring events to where changes of their snapshots lead.

    Operators that remember events want to be told of moves of events they have seen. So the events
    of a payload that changes leave as they came, and come again as they are then. Payloads that
    do not change are left alone. Without withdrawals, changes are such moves already.

    Example: the event [15, 40) and a withdrawal for [20, 30) become a withdrawal of [15, 40) and
    inserts for [15, 20) and [30, 40).
    """
    if not len(changes) or not (changes.end != changes.start).any():
        return changes
    own, touched = (stable_hash(each.payload.columns, len(each)) for each in (events, changes))
    before = events.where(np.isin(own, touched))
    after = snapshot_changes(EventBatch.concat([before, changes]))
    return net(EventBatch.concat([reversed_changes(before), after]))


def reversed_changes(changes: EventBatch) -> EventBatch:
    """What undoes them."""
    return replace(changes, end=changes.new_end, new_end=changes.end)


def known_after(revisions: Iterable[Revision], number: int) -> list[Revision]:
    """Those in force after the revision of a number; 0 is before any."""
    return [revision for revision in revisions if revision.number <= number]


def _differs(column: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Which rows differ from the row before them; the first does."""
    found = np.ones(len(column), np.bool_)
    found[1:] = column[1:] != column[:-1]
    return found
