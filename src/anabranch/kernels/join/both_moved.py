"""Pairs whose events move on both sides in one batch."""

from __future__ import annotations

from typing import Final

import numpy as np

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.join.interval_trace import FreshRun, HeldEvents
from anabranch.kernels.join.pairs import NO_CORRECTIONS, NO_PAIR, Corrections, SideMoves

COMPARED_UP_TO_MOVES: Final = 8
"""Moves of one key and start are compared each with each other up to this count."""

_ONCE: Final = np.empty(0, np.int64)


def is_chained(moves: SideMoves) -> bool:
    """Whether an event may move twice; where False is given, none does."""
    if moves.end is moves.start:
        return False
    if not columns.is_compiled(len(moves.ids)):
        return bool((moves.end != moves.start).any())
    times = (moves.start, moves.end, moves.new_end)
    return bool(columns.native().chained(moves.ids, *times, COMPARED_UP_TO_MOVES))


def moved_once(
    left: SideMoves, first: HeldEvents, right: SideMoves, second: HeldEvents, fresh: FreshRun
) -> tuple[Corrections, Corrections] | None:
    """Corrections with which each pair moves once; None where it is not clear which pairs they are.

    No event of a side moves twice (see `is_chained`). Left moves meet the right side as it was
    (`first`), right ones the left side as it is now (`second`), with the run that has just been
    written. So a pair moves twice if its left event is from that run and its right one is
    corrected: the first move begins where the pair was, and the second one ends where it will be.
    Example: a left event [5, 9) comes, and the end of its partner moves from 8 to 7. The pairs
    5 -> 8 and 8 -> 7 become 5 -> 7, as if the left event had met a partner that ends at 7.

    The first of both pairs is the one of the same left move whose right event was what the
    correction says it was. Where there are several such events, payloads would tell.
    """
    if second.parts[-1] is not fresh.rows or right.end is right.start:
        return NO_CORRECTIONS, NO_CORRECTIONS
    since = int(second.stops[-2]) if len(second.stops) > 1 else 0
    is_clear, rows, ends, others = columns.native().both_moved(
        left.rows,
        left.start,
        left.end,
        left.new_end,
        first.owner,
        first.start,
        first.end,
        _ONCE if first.count is None else first.count,
        right.start,
        right.end,
        right.new_end,
        fresh.source,
        second.owner,
        second.position,
        _ONCE if second.count is None else second.count,
        since,
        left.values.num_rows,
    )
    if not is_clear:
        return None
    return Corrections(rows, ends), Corrections(others, np.full(len(others), NO_PAIR))
