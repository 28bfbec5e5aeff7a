"""The old answer and the new one in one pass: both inputs side by side in time.

A plan that does not know what time it is gives the same answers to the same input a while later.
So the past as it was believed, and behind it, moved far enough that they never meet, the past as it
is now, go through the plan as one batch. What leaves at the later time, moved back, less what
leaves at the earlier one is the difference. Of few rows most of the time is that of calls, and
these are half as many as with one batch after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import lcm
from typing import Final

import numpy as np

from anabranch.algebra.analysis.shifting import longest_hold, shift_period
from anabranch.algebra.node import Node
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.model.batch import EventBatch

SIDE_BY_SIDE_UP_TO_ROWS: Final = 5_000
"""Up to this row count a replay takes both answers in one pass; above, rows count, not calls."""

_FARTHEST: Final = 2**59
"""Times of input, and how long answers hold, are below this; so nothing meets, or overflows."""

_BETWEEN: Final = 2**60
"""Before this instant is the old answer, from it on the new one."""


def distance_between(nodes: Sequence[Node]) -> int | None:
    """How far apart both inputs of these plans are put; None where that cannot be done.

    About 2^61: from 2^59 on both sides, and 2^59 for what holds on, there is room to either side.
    """
    period = 1
    for node in nodes:
        own = shift_period(node)
        if own is None or longest_hold(node) >= _FARTHEST:
            return None
        period = lcm(period, own)
    return None if period >= _FARTHEST else 2**61 // period * period


def may_stand_side_by_side(batches: Iterable[EventBatch]) -> bool:
    """Whether there are few rows, of times that leave room."""
    every = tuple(batches)
    return sum(map(len, every)) <= SIDE_BY_SIDE_UP_TO_ROWS and all(map(_leaves_room, every))


def _leaves_room(rows: EventBatch) -> bool:
    if not len(rows):
        return True
    low = min(int(rows.start.min()), int(rows.new_end.min()))
    high = max(int(rows.end.max()), int(rows.new_end.max()))
    return low > -_FARTHEST and high < _FARTHEST


def moves_side_by_side(
    plan: PhysicalPlan,
    old: Mapping[str, EventBatch],
    new: Mapping[str, EventBatch],
    distance: int,
) -> list[EventBatch]:
    """Per output, moves that lead from the old answer to the new one.

    Args:
        plan: The plan, with speculative emission.
        old: The events of each source, as they were believed: inserts.
        new: The events of the same sources as they are now.
        distance: What `distance_between` says.
    """
    came = {
        name: EventBatch.concat([rows, _moved(new[name], distance)]) for name, rows in old.items()
    }
    outputs = LocalRunner(plan).step_all(came, wanted="output")
    return [_difference(each, distance) for each in outputs]


def _moved(rows: EventBatch, by: int) -> EventBatch:
    start = rows.start + by
    end = start if rows.end is rows.start else rows.end + by
    return replace(rows, start=start, end=end, new_end=rows.new_end + by)


def _difference(output: EventBatch, distance: int) -> EventBatch:
    """What is new, at its own time, and what is old, taken back."""
    is_new = output.start >= _BETWEEN
    back = np.where(is_new, np.int64(distance), np.int64(0))
    start, end, new_end = output.start - back, output.end - back, output.new_end - back
    return replace(
        output,
        start=start,
        end=np.where(is_new, end, new_end),
        new_end=np.where(is_new, new_end, end),
    )
