"""Keep what was seen for a while."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import ClassVar, Final, final

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.node import Unary, clock_of
from anabranch.algebra.traits import Traits
from anabranch.algebra.window_columns import (
    Columns,
    bounds,
    check_columns,
    check_points,
    with_columns,
)
from anabranch.errors import PlanError, StreamError
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream, Payload, Steps
from anabranch.model.time import BEGINNING, FOREVER, Duration

UNBOUNDED: Final = Duration(FOREVER)
"""The size of a window that forgets nothing."""

CHRONON: Final = Duration(1)

MOST_STEPS: Final = 1_000_000
"""`denote` gives up above this many changes of one payload's multiplicity."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow(Unary):
    """Hold each occurrence for `size`: out(p, t) = sum of in(p, u) over h - size < u <= h.

    h is the last slide instant up to t: h = floor((t + 1) / slide) * slide - 1, which is t
    itself for a slide of one. Slides are aligned to instant 0. A size of FOREVER forgets
    nothing. Every instant of a longer lifetime is an occurrence of its own (Kraemer 2007, 8.2.1
    and 17.1, for negative instants too).

    With `columns` every row says which window shows it: out(p + (h + 1 - size, h + 1), t) is what
    out(p, t) is without. So a point is there once for every window that holds it, each time for
    one slide.

    Attributes:
        size: How long an occurrence is held.
        slide: The content changes only every so often.
        columns: Names for columns with the bounds of the window that shows a row.
        presence: It matters only whether a payload is held at all: out(p, t) is at most 1, and
            any number from 1 on stands for 1. Set below operators that ignore duplicates
            (`algebra/analysis/presence.py`), never at the end of a plan.
    """

    identity: ClassVar[Identity] = Identity(
        "TimeWindow", ("input", "size", "slide", "columns", "presence"), by_hash=True
    )

    traits: ClassVar[Traits] = Traits(keeps_payloads=True, passes_presence=True)

    size: Duration
    slide: Duration = CHRONON
    columns: Columns | None = None
    presence: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.size <= FOREVER:
            raise PlanError(
                f"a window cannot have size {self.size}",
                hint="use a positive duration, or FOREVER for an unbounded window",
            )
        if not 1 <= self.slide < FOREVER:
            raise PlanError(
                f"a window cannot slide by {self.slide}",
                hint="use a positive duration; 1 slides with every instant",
            )
        if self.columns is not None:
            self._check_columns(self.columns)

    def _check_columns(self, columns: Columns) -> None:
        check_columns(self.input, columns, where=self.label)
        check_points(self.input, where=self.label)
        if self.size == UNBOUNDED:
            raise PlanError(
                "an unbounded window has no start to show in a column",
                where=self.label,
                hint="give the window a size, or leave the columns out",
            )
        if self.slide == 1 < self.size:
            raise PlanError(
                "a window that slides with every instant would show a row once per instant",
                where=self.label,
                hint="give it a SLIDE: one of the size of the window makes it tumble",
            )

    @property
    def schema(self) -> pa.Schema:
        """That of the input; the bounds of the window may follow."""
        return with_columns(self.input, self.columns)

    @property
    def remembers(self) -> bool:
        """No: each row leaves by itself."""
        return False

    @property
    def properties(self) -> Properties:
        """Insert-only if the input is; points only where nothing is held at all."""
        of_input = self.input.properties
        if self.size == 1 and self.slide == 1:
            return of_input
        if self.columns is not None and self.size > self.slide:
            return Properties(insert_only=of_input.insert_only)
        if not of_input.only_points:
            return Properties(insert_only=of_input.insert_only)
        held = replace(
            of_input, only_points=False, no_duplicates=False, keyed=of_input.keyed, single=False
        )
        return held if self.slide == 1 else held.loosened()

    @property
    def label(self) -> str:
        """`TimeWindow 10m slide 1m`, `TimeWindow 10m slide 10m with window_start, window_end`."""
        clock = clock_of(self.input)
        slide = f" slide {clock.format_duration(self.slide)}" if self.slide > 1 else ""
        shown = f" with {', '.join(self.columns)}" if self.columns else ""
        once = " presence only" if self.presence else ""
        return f"TimeWindow {clock.format_duration(self.size)}{slide}{shown}{once}"

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """Count the occurrences in the window that ends at each slide instant."""
        (rows,) = inputs
        if self.presence:
            return self._presence(rows)
        held = LogicalStream.of_steps(
            {payload: self._count(steps) for payload, steps in rows.steps.items()}
        )
        return held if self.columns is None else LogicalStream.of(self._by_window(held))

    def _presence(self, rows: LogicalStream) -> LogicalStream:
        """Each lifetime [s, e) as [s, e + size - 1), both moved up to the next slide instant."""
        held: list[tuple[Payload, int, int]] = []
        for payload, start, end in rows.events():
            last = FOREVER if self.size == UNBOUNDED else end - 1 + self.size
            held.append((payload, self._slide_up(start), min(self._slide_up(last), int(FOREVER))))
        there = LogicalStream.of(event for event in held if event[1] < event[2])
        return there.combine(LogicalStream(), lambda mine, _: min(mine, 1))

    def _slide_up(self, instant: int) -> int:
        """The first slide instant at or after an instant."""
        return self._first_end(instant + 1) - 1

    def _by_window(self, held: LogicalStream) -> Iterator[tuple[Payload, int, int]]:
        """What is held, cut at the slide instants, with the bounds of the window at each."""
        clock = clock_of(self.input)
        for payload, start, end in held.events():
            first = (start + 1) // self.slide * self.slide - 1
            for shown in range(first, end, self.slide):
                window = bounds(shown + 1 - self.size, shown + 1, clock)
                yield (*payload, *window), max(start, shown), min(end, shown + self.slide)

    def _count(self, steps: Steps) -> list[tuple[int, int]]:
        seen_before = _occurrences_before(steps)
        counts: list[tuple[int, int]] = []
        for end in self._ends(steps):
            # Shown from its last instant on: what was seen in [end - size, end).
            forgotten = 0 if self.size == UNBOUNDED else seen_before(end - self.size)
            counts.append((end - 1, seen_before(end) - forgotten))
            if len(counts) > MOST_STEPS:
                raise StreamError(
                    "a window over such long lifetimes changes at too many instants",
                    where=f"{self.label} over a lifetime that begins at {steps[0][0]}",
                    hint="turn the lifetimes into points first, or use a smaller window",
                )
        return counts

    def _ends(self, steps: Steps) -> Iterator[int]:
        """The ends of windows, ascending, at which the count may differ from the one before.

        As the end moves on by one instant, the count changes by what enters minus what leaves.
        That is the same over spans between the instants at which the input changes at either
        border of the window: where it is nothing, the first end of the span is enough.
        """
        slope_changes: Counter[int] = Counter()
        before = 0
        for instant, count in steps:
            slope_changes[instant] += count - before
            if self.size < UNBOUNDED:
                slope_changes[instant + self.size] -= count - before
            before = count
        slope, next_end = 0, self._first_end(BEGINNING)
        borders = sorted(slope_changes)
        for border, after in zip(borders, [*borders[1:], int(FOREVER)]):
            slope += slope_changes[border]
            first = self._first_end(border)
            last = self._first_end(after) if slope else first
            for end in range(max(first, next_end), min(last, FOREVER) + 1, self.slide):
                yield end
                next_end = end + self.slide

    def _first_end(self, instant: int) -> int:
        return -(-instant // self.slide) * self.slide


def _occurrences_before(steps: Steps) -> Callable[[int], int]:
    """The function that counts occurrences before an instant: sum of in(p, u) over u < instant."""
    starts = [start for start, _ in steps]
    lengths = [after - start for start, after in pairwise(starts)]
    sums = [0, *accumulate(count * length for (_, count), length in zip(steps, lengths))]

    def seen_before(instant: int) -> int:
        span = bisect_left(starts, instant) - 1
        return sums[span] + steps[span][1] * (instant - starts[span]) if span >= 0 else 0

    return seen_before
