"""From two states of a timeline to the moves that lead from one to the other."""

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
    """Moves of output events: where their values stand (`is_old`: in the old state), and ends."""

    places: Ints
    is_old: Mask
    start: Ints
    end: Ints
    new_end: Ints


def changed_events(
    revision: TimelineRevision, new_row: Mask, old_there: Mask, new_there: Mask, same: Mask
) -> OutputMoves:
    """Compare segments that start at one place.

    Equal payload on both sides: its end moves, if it moves. Otherwise the old one is withdrawn
    and the new one inserted. Segments that are not known are not touched.
    """
    if columns.is_compiled(len(new_row)):
        return OutputMoves(
            *columns.native().changes(
                revision.times,
                revision.last,
                revision.known,
                revision.old_row,
                new_row,
                old_there,
                new_there,
                same,
                int(FOREVER),
            )
        )
    old_event = revision.known & revision.old_row & old_there
    new_event = revision.known & new_row & new_there
    old_end = revision.next_times(revision.old_row)
    new_end = revision.next_times(new_row)
    kept = old_event & new_event & same
    moved = kept & (old_end != new_end)
    gone = old_event & ~kept
    come = new_event & ~kept
    where = [np.flatnonzero(gone), np.flatnonzero(moved), np.flatnonzero(come)]
    places = np.concatenate(where)
    start = revision.times[places]
    ends = np.concatenate([old_end[where[0]], old_end[where[1]], revision.times[where[2]]])
    new_ends = np.concatenate([revision.times[where[0]], new_end[where[1]], new_end[where[2]]])
    is_old = np.zeros(len(places), np.bool_)
    is_old[: len(where[0])] = True
    order = np.argsort(places, kind="stable")
    return OutputMoves(places[order], is_old[order], start[order], ends[order], new_ends[order])
