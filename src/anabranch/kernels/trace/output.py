"""Diff a timeline before and after a batch into moves of output events.

A row of a timeline and the next one bound a segment; a segment with something in it is an output
event. Two segments with the same start and payload are one event whose end may have moved.

Example (before | after): [10, 20) a, [20, 30) b | [10, 15) a, [15, 20) c, [20, 30) d
    10: same start and payload, the end moves 20 -> 15
    15: only after, inserted as [15, 20) c
    20: payload differs, [20, 30) b is withdrawn, then [20, 30) d is inserted
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.grouped import Ints, Mask
from anabranch.kernels.trace.timeline import TimelineRevision
from anabranch.model.time import FOREVER


@final
@dataclass(frozen=True, slots=True, eq=False)
class OutputMoves:
    """Moves of output events: breakpoint of the values (`is_old`: the values before), and ends."""

    positions: Ints
    is_old: Mask
    start: Ints
    end: Ints
    new_end: Ints


def changed_events(
    revision: TimelineRevision, new_row: Mask, old_there: Mask, new_there: Mask, same: Mask
) -> OutputMoves:
    """Compare the segments that start at each breakpoint, before and after.

    Equal payload on both sides: the end moves, if it differs. Otherwise the old event is withdrawn
    and the new one inserted. Where a breakpoint is not complete, nothing changed.
    """
    if columns.is_compiled(len(new_row)):
        return OutputMoves(
            *columns.native().changes(
                revision.times,
                revision.last,
                revision.complete,
                revision.old_row,
                new_row,
                old_there,
                new_there,
                same,
                int(FOREVER),
            )
        )
    old_event = revision.complete & revision.old_row & old_there
    new_event = revision.complete & new_row & new_there
    old_end = revision.next_times(revision.old_row)
    new_end = revision.next_times(new_row)
    kept = old_event & new_event & same
    moved = kept & (old_end != new_end)
    gone = old_event & ~kept
    come = new_event & ~kept
    where = [np.flatnonzero(gone), np.flatnonzero(moved), np.flatnonzero(come)]
    positions = np.concatenate(where)
    start = revision.times[positions]
    ends = np.concatenate([old_end[where[0]], old_end[where[1]], revision.times[where[2]]])
    new_ends = np.concatenate([revision.times[where[0]], new_end[where[1]], new_end[where[2]]])
    is_old = np.zeros(len(positions), np.bool_)
    is_old[: len(where[0])] = True
    order = np.argsort(positions, kind="stable")
    return OutputMoves(positions[order], is_old[order], start[order], ends[order], new_ends[order])
