"""Windows as stretches of the time axis, and which lifetimes belong to them.

Nothing of an event changes here: a window is an interval, and an event belongs to it or not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final, TypeAlias, final

from anabranch.errors import PlanError
from anabranch.model.clock import Clock
from anabranch.model.identity import Identity
from anabranch.model.time import BEGINNING, FOREVER, Duration

Span: TypeAlias = tuple[int, int]
"""A stretch of time `[start, end)`: a lifetime, or a window."""

_LONGEST: Final = 2**61


class AxisWindow(ABC):
    """A type of windows: which there are, given the lifetimes of one group, and who is in them."""

    __slots__ = ()

    on_grid: ClassVar[bool] = False
    """Whether there are the same windows for any events: then they may be empty."""

    @abstractmethod
    def spans(self, lifetimes: Sequence[Span], horizon: int) -> list[Span]:
        """All windows to which one of the lifetimes belongs, in order.

        What never ends would be in windows without end: it is in those that begin before the
        horizon.
        """

    def holds(self, window: Span, lifetime: Span) -> bool:
        """Whether an event belongs to a window: its lifetime overlaps it."""
        return lifetime[0] < window[1] and lifetime[1] > window[0]

    @abstractmethod
    def label(self, clock: Clock) -> str:
        """`HOPPING 10m every 1m`, by the clock of the stream."""


@final
@dataclass(frozen=True, slots=True)
class Hopping(AxisWindow):
    """The windows `[k * hop + offset, k * hop + offset + size)` for all whole k.

    >>> Hopping(Duration(10), Duration(5)).spans([(3, 7)], 0)
    [(-5, 5), (0, 10), (5, 15)]
    """

    identity: ClassVar[Identity] = Identity("Hopping", ("size", "hop", "offset"))

    on_grid: ClassVar[bool] = True

    size: Duration
    hop: Duration
    offset: int = 0

    def __post_init__(self) -> None:
        for name, length in (("size", self.size), ("hop", self.hop)):
            if not 1 <= length <= _LONGEST:
                raise PlanError(
                    f"windows cannot have a {name} of {length}",
                    hint="use a positive duration",
                )
        if abs(self.offset) > _LONGEST:
            raise PlanError(f"an offset of {self.offset} is too large", hint="use a smaller one")

    def numbers(self, start: int, end: int) -> range:
        """The numbers k of the windows that overlap a stretch of time."""
        first = (start - self.offset - self.size) // self.hop + 1
        after = -(-(end - self.offset) // self.hop)
        return range(first, after)

    def span(self, number: int) -> Span:
        """The window with a number, within all time: BEGINNING is no instant."""
        start = number * self.hop + self.offset
        return max(start, BEGINNING + 1), min(start + self.size, FOREVER)

    def spans(self, lifetimes: Sequence[Span], horizon: int) -> list[Span]:
        """Those that overlap a lifetime."""
        found: set[Span] = set()
        for start, end in lifetimes:
            last = end if end < FOREVER else min(max(horizon, start + 1), int(FOREVER))
            found.update(self.span(number) for number in self.numbers(start, last))
        return sorted(found)

    def filled(self, spans: Sequence[Span], lifetimes: Sequence[Span], stable: int) -> list[Span]:
        """These windows and the empty ones after the first: between them, and up to an instant."""
        if not spans:
            return []
        until = max(stable, spans[-1][1])
        first = self.numbers(spans[0][0], spans[0][0] + 1)
        begin = next(number for number in first if self.span(number) == spans[0])
        every = (self.span(number) for number in range(begin, self.numbers(until, until + 1).stop))
        empty = (
            span
            for span in every
            if span[1] <= until and not any(self.holds(span, each) for each in lifetimes)
        )
        return sorted({*spans, *empty})

    def label(self, clock: Clock) -> str:
        """`TUMBLING 10m`, `HOPPING 10m every 1m`."""
        size, hop = clock.format_duration(self.size), clock.format_duration(self.hop)
        text = f"TUMBLING {size}" if self.size == self.hop else f"HOPPING {size} every {hop}"
        return text if not self.offset else f"{text} from {self.offset}"


@final
@dataclass(frozen=True, slots=True)
class Snapshot(AxisWindow):
    """One window between any two neighbours among all starts and ends.

    >>> Snapshot().spans([(1, 7), (3, 9), (9, 11)], 0)
    [(1, 3), (3, 7), (7, 9), (9, 11)]
    """

    identity: ClassVar[Identity] = Identity("Snapshot")

    def spans(self, lifetimes: Sequence[Span], horizon: int) -> list[Span]:
        """Between ends, wherever something holds."""
        del horizon
        ends = sorted({end for lifetime in lifetimes for end in lifetime})
        every = pairwise(ends)
        return [span for span in every if any(self.holds(span, each) for each in lifetimes)]

    def label(self, clock: Clock) -> str:
        """`SNAPSHOT`."""
        del clock
        return "SNAPSHOT"


def _counted(instants: Iterable[int], count: int) -> list[Span]:
    """From each of some instants to just after the one that is the last of so many."""
    each = sorted(set(instants))
    return [(one, min(last + 1, int(FOREVER))) for one, last in zip(each, each[count - 1 :])]


def _check_count(count: int) -> None:
    if not 1 <= count <= 1_000_000:
        raise PlanError(
            f"a window cannot count {count} instants", hint="use a number from 1 to 1,000,000"
        )


@final
@dataclass(frozen=True, slots=True)
class CountByStart(AxisWindow):
    """For each start a window over `count` different starts, once there are so many.

    An event belongs to it if its start lies in it.

    >>> CountByStart(2).spans([(1, 9), (4, 5), (4, 7), (6, 8)], 0)
    [(1, 5), (4, 7)]
    """

    identity: ClassVar[Identity] = Identity("CountByStart", ("count",))

    count: int

    def __post_init__(self) -> None:
        _check_count(self.count)

    def spans(self, lifetimes: Sequence[Span], horizon: int) -> list[Span]:
        """From every start to the one that makes the number full."""
        del horizon
        return _counted((start for start, _ in lifetimes), self.count)

    def holds(self, window: Span, lifetime: Span) -> bool:
        """Whether the start lies in it."""
        return window[0] <= lifetime[0] < window[1]

    def label(self, clock: Clock) -> str:
        """`COUNT 3 BY START`."""
        del clock
        return f"COUNT {self.count} BY START"


@final
@dataclass(frozen=True, slots=True)
class CountByEnd(AxisWindow):
    """For each end a window over `count` different ends, once there are so many.

    An event belongs to it if its end lies in it. What never ends has no end.

    >>> CountByEnd(2).spans([(1, 9), (4, 5), (4, 7), (6, int(FOREVER))], 0)
    [(5, 8), (7, 10)]
    """

    identity: ClassVar[Identity] = Identity("CountByEnd", ("count",))

    count: int

    def __post_init__(self) -> None:
        _check_count(self.count)

    def spans(self, lifetimes: Sequence[Span], horizon: int) -> list[Span]:
        """From every end to the one that makes the number full."""
        del horizon
        return _counted((end for _, end in lifetimes if end < FOREVER), self.count)

    def holds(self, window: Span, lifetime: Span) -> bool:
        """Whether the end lies in it."""
        return window[0] <= lifetime[1] < window[1] and lifetime[1] < FOREVER

    def label(self, clock: Clock) -> str:
        """`COUNT 3 BY END`."""
        del clock
        return f"COUNT {self.count} BY END"


@final
@dataclass(frozen=True, slots=True)
class Session(AxisWindow):
    """Events that follow each other with gaps of less than `gap`.

    The last instant of an event keeps its session open for `gap`. So a session is over, and its
    window ends, when nothing can join it any more.

    >>> Session(Duration(3)).spans([(1, 2), (3, 5), (7, 8)], 0)
    [(1, 7), (7, 10)]
    """

    identity: ClassVar[Identity] = Identity("Session", ("gap",))

    gap: Duration

    def __post_init__(self) -> None:
        if not 1 <= self.gap <= _LONGEST:
            raise PlanError(
                f"a session cannot end after a gap of {self.gap}",
                hint="use a positive duration: the time without events after which it is over",
            )

    def spans(self, lifetimes: Sequence[Span], horizon: int) -> list[Span]:
        """From the first start to the end of what the last event keeps open."""
        del horizon
        found: list[Span] = []
        for start, end in sorted(lifetimes):
            over = min(end - 1 + self.gap, int(FOREVER)) if end < FOREVER else int(FOREVER)
            if found and start < found[-1][1]:
                found[-1] = (found[-1][0], max(found[-1][1], over))
            else:
                found.append((start, over))
        return found

    def label(self, clock: Clock) -> str:
        """`SESSION 5m`."""
        return f"SESSION {clock.format_duration(self.gap)}"


def tumbling(size: Duration, offset: int = 0) -> Hopping:
    """Windows that follow each other without gap and overlap."""
    return Hopping(size, size, offset)
