"""What happens to events on their way: disorder, lateness, corrections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import numpy.typing as npt

from anabranch.errors import QueryError
from anabranch.model.time import SECOND, Duration, TimeArray
from anabranch.workloads.random_access import Integers, Randomness

INSERT, WITHDRAW, REPLACE = 0, 1, 2
"""What arrives: an event, its withdrawal, what comes in its place."""

_BLOCK: Final = 65_536
_NONE: Final = Duration(0)
_TEN_SECONDS: Final = Duration(10 * SECOND)
_MINUTE: Final = Duration(60 * SECOND)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """What happens to events on their way.

    Attributes:
        disorder: An event arrives up to so much later than it happened.
        late: The share of events that arrive later than that, and so break the promises of
            stable points: a source must drop, revise or refuse them.
        late_by: By how much more, at most.
        corrections: The share of events that are withdrawn after their arrival.
        replaced: The share of these that come again with other values.
        correction_delay: How long after its arrival an event is corrected, at most.
        stable_every: A stable point follows so many rows.
    """

    disorder: Duration = _NONE
    late: float = 0.0
    late_by: Duration = _MINUTE
    corrections: float = 0.0
    replaced: float = 0.5
    correction_delay: Duration = _TEN_SECONDS
    stable_every: int = 1_000

    def __post_init__(self) -> None:
        for name in ("late", "corrections", "replaced"):
            if not 0 <= getattr(self, name) <= 1:
                raise QueryError(f"'{name}' is not a share", hint="a share is between 0 and 1")
        if min(self.disorder, self.late_by, self.correction_delay) < 0 or self.stable_every < 1:
            raise QueryError(
                "a delay is negative, or stables come every 0 rows",
                hint="delays are 0 or more, and 'stable_every' is 1 or more",
            )

    @property
    def patience(self) -> int:
        """How far a stable point stays behind the clock of arrivals."""
        return self.disorder + (self.correction_delay if self.corrections else 0)


@final
@dataclass(frozen=True, slots=True)
class EventTimes:
    """Events by number, and when each happens.

    Attributes:
        count: How many there are.
        random: What decides what happens to them.
        times: When events happen.
        earliest: No event from this number on happens before that; never falls with the number.
    """

    count: int
    random: Randomness
    times: Callable[[Integers], TimeArray]
    earliest: Callable[[Integers], TimeArray]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """Elements by time of arrival: what happens to which event."""

    time: TimeArray
    event: Integers
    kind: Integers

    def take(self, rows: np.ndarray) -> Arrived:
        """Those at these positions."""
        return Arrived(self.time[rows], self.event[rows], self.kind[rows])


def arrivals(clock: EventTimes, how: Disturbance) -> Iterator[Arrived]:
    """All elements, by time of arrival; what comes after the events of a block is held back."""
    none = np.empty(0, np.int64)
    held = Arrived(none, none, none)
    for first in range(0, clock.count, _BLOCK):
        last = min(first + _BLOCK, clock.count)
        block = _block(clock, how, np.arange(first, last, dtype=np.int64))
        both = _joined([held, block])
        if last < clock.count:
            ready = both.time < clock.earliest(np.array([last]))[0]
        else:
            ready = np.ones(len(both.event), np.bool_)
        held = both.take(~ready)
        now = both.take(ready)
        yield now.take(np.lexsort((now.kind, now.event, now.time)))


def corrected(clock: EventTimes, how: Disturbance, event: Integers) -> npt.NDArray[np.bool_]:
    """Which of these events are withdrawn after their arrival."""
    wrong = clock.random.floats("corrected", event) < how.corrections
    return wrong & ~_late(clock, how, event)


def _late(clock: EventTimes, how: Disturbance, event: Integers) -> npt.NDArray[np.bool_]:
    return clock.random.floats("late", event) < how.late


def _block(clock: EventTimes, how: Disturbance, event: Integers) -> Arrived:
    random = clock.random
    happened = clock.times(event)
    is_late = _late(clock, how, event)
    delay = random.integers("delay", event, how.disorder + 1)
    lateness = how.patience + how.late_by * (0.5 + 0.5 * random.floats("late by", event))
    arrival = happened + np.where(is_late, lateness.astype(np.int64), delay)
    wrong = corrected(clock, how, event)
    again = wrong & (random.floats("again", event) < how.replaced)
    noticed = arrival + random.integers("noticed", event, how.correction_delay + 1)
    return _joined(
        [
            Arrived(arrival, event, np.full(len(event), INSERT)),
            Arrived(noticed, event, np.full(len(event), WITHDRAW)).take(wrong),
            Arrived(noticed, event, np.full(len(event), REPLACE)).take(again),
        ]
    )


def _joined(parts: list[Arrived]) -> Arrived:
    return Arrived(
        np.concatenate([part.time for part in parts]),
        np.concatenate([part.event for part in parts]),
        np.concatenate([part.kind for part in parts]),
    )


def rechunked(parts: Iterator[Arrived], rows: int) -> Iterator[Arrived]:
    """The same in pieces of exactly so many rows, but for the last."""
    rest: list[Arrived] = []
    count = 0
    for part in parts:
        rest.append(part)
        count += len(part.event)
        if count >= rows:
            whole = _joined(rest)
            cut = count - count % rows
            for first in range(0, cut, rows):
                yield whole.take(np.arange(first, first + rows))
            rest = [whole.take(np.arange(cut, count))]
            count -= cut
    if count:
        yield _joined(rest)
