"""Plans that do not know what time it is: moved input gives the same answers, moved."""

from __future__ import annotations

from math import lcm

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.algebra.union import Union


def shift_period(node: Node) -> int | None:
    """Moving all inputs of a plan by a multiple of this moves its answers by as much.

    None where that is not so, or not known. Windows slide at the multiples of their slide, so
    theirs is the least common multiple of all slides. What works snapshot by snapshot does the same
    at every instant, as long as no column tells the time of a row.
    """
    period = _own_period(node)
    for each in node.inputs:
        below = shift_period(each)
        if period is None or below is None:
            return None
        period = lcm(period, below)
    return period


def _own_period(node: Node) -> int | None:
    match node:
        case TimeWindow(columns=None, size=size, slide=slide) if size < UNBOUNDED:
            return slide
        case Granularity(granule=granule):
            return granule
        case Source():
            # Rows that are unique in all of time would be there twice.
            is_plain = not (node.always or node.copies or node.timeless or node.relation)
            return 1 if is_plain and not node.unique else None
        case (
            Filter() | Map() | Union() | Join() | Aggregation() | Distinct() | SetOperation()
            | Coalesce()
        ):  # fmt: skip
            return 1
    return None


def longest_hold(node: Node) -> int:
    """An answer holds at most so much longer than the input that it comes from.

    For plans that have a period.
    """
    match node:
        case TimeWindow(size=size, slide=slide):
            own = int(size) + int(slide)
        case Granularity(granule=granule):
            own = int(granule)
        case _:
            own = 0
    return own + max(map(longest_hold, node.inputs), default=0)
