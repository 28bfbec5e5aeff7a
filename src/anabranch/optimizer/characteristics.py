"""How operators change the mean distance and length of lifetimes (Kraemer 2007, chapter 22)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Characteristics:
    """A stream on average, in chronons.

    Attributes:
        distance: Between the starts of two successive events.
        lifetime: Of an event.
        granule: The grid that starts and ends lie on.
    """

    distance: float
    lifetime: float
    granule: float = 1.0

    @property
    def rate(self) -> float:
        """Events per chronon."""
        return 1 / self.distance

    @property
    def live(self) -> float:
        """Events that hold at an instant."""
        return self.lifetime / self.distance


def filtered(given: Characteristics, selectivity: float) -> Characteristics:
    """Fewer events (22.1)."""
    return replace(given, distance=given.distance / selectivity)


def united(given: Sequence[Characteristics]) -> Characteristics:
    """Events of all inputs (22.3)."""
    rate = sum(each.rate for each in given)
    live = sum(each.live for each in given)
    return Characteristics(1 / rate, live / rate, max(each.granule for each in given))


def joined(
    left: Characteristics, right: Characteristics, selectivity: float = 1.0
) -> Characteristics:
    """Pairs that hold together (22.4)."""
    both = left.lifetime + right.lifetime
    return Characteristics(
        left.distance * right.distance / (selectivity * both),
        left.lifetime * right.lifetime / both,
        max(left.granule, right.granule),
    )


def distinct(given: Characteristics, values: float) -> Characteristics:
    """Each of some values once (22.5)."""
    return replace(given, lifetime=min(given.lifetime, values * given.distance))


def partials(given: Characteristics) -> float:
    """How many partial sums a scalar aggregation holds (22.30)."""
    if given.distance >= given.lifetime:
        return 1.0
    return _occupied(given, given.lifetime / given.distance)


def aggregated(given: Characteristics) -> Characteristics:
    """A new row wherever a lifetime begins or ends (22.6)."""
    if given.distance >= given.lifetime:
        return given
    boundaries = 2 * given.lifetime / given.distance
    gap = given.lifetime / _occupied(given, boundaries)
    return replace(given, distance=gap, lifetime=gap)


def grouped(given: Characteristics, groups: float) -> Characteristics:
    """An aggregation per group (22.7)."""
    one = of_group(given, groups)
    if one.distance >= one.lifetime:
        return given
    each = aggregated(one)
    return replace(each, distance=each.distance / groups)


def of_group(given: Characteristics, groups: float) -> Characteristics:
    """What one of several groups sees."""
    return replace(given, distance=given.distance * groups)


def split(given: Characteristics, length: float) -> Characteristics:
    """Shorter pieces, more of them (22.8)."""
    if length >= given.lifetime:
        return given
    return replace(given, distance=given.distance * length / given.lifetime, lifetime=length)


def granulated(given: Characteristics, granule: float) -> Characteristics:
    """Starts and ends on a coarser grid (22.9)."""
    if granule == given.granule or given.lifetime >= granule:
        return replace(given, granule=granule)
    distance = granule / given.lifetime * given.distance
    return Characteristics(distance, granule, granule)


def held(given: Characteristics, size: float, slide: float = 1.0) -> Characteristics:
    """A time window (22.10); every instant of a lifetime is an occurrence of its own."""
    occurrences = replace(given, distance=given.distance / min(max(given.lifetime, 1.0), size))
    if slide <= size:
        return replace(occurrences, lifetime=size)
    return replace(occurrences, distance=occurrences.distance * slide / size, lifetime=slide)


def counted(
    given: Characteristics, rows: float, groups: float = 1.0, slide: float = 1.0
) -> Characteristics:
    """A window over the last rows, of each group (22.11, 22.12)."""
    if slide <= rows:
        return replace(given, lifetime=groups * rows * given.distance)
    distance = given.distance * slide / rows
    return replace(given, distance=distance, lifetime=groups * slide * given.distance)


def in_hops(
    given: Characteristics, size: float, hop: float, groups: float = 1.0
) -> Characteristics:
    """One row per window of a grid and group, where there is an event (ours)."""
    events = (given.lifetime + size) / of_group(given, groups).distance
    rate = max(groups * -math.expm1(-events) / hop, 1e-30)
    return replace(given, distance=1 / rate, lifetime=size)


def in_sessions(given: Characteristics, gap: float, groups: float = 1.0) -> Characteristics:
    """One row per run of events that follow each other, of each group (ours)."""
    one = of_group(given, groups)
    # Events between two breaks, if their distances are random; a run may seem to have no end.
    events = math.exp(min(gap / one.distance, 20.0))
    lasts = (events - 1) * one.distance + given.lifetime + gap
    return replace(given, distance=given.distance * events, lifetime=lasts)


def _occupied(given: Characteristics, boundaries: float) -> float:
    """How many instants of the grid within a lifetime have a boundary (Cardenas)."""
    instants = max(given.lifetime / given.granule, 1.0 + 1e-9)
    return instants * -math.expm1(boundaries * math.log1p(-1 / instants))
