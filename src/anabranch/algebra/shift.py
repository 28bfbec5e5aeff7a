"""Move a stream in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, final

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.granularity import show_span
from anabranch.algebra.node import Unary
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Time

FIRST: Final = BEGINNING + 1
"""The earliest instant at which something can hold."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Shift(Unary):
    """Everything later by `by`, earlier where that is negative: out(p, t) = in(p, t - by).

    An end that is FOREVER stays so. What would leave the range of time is cut off there.
    """

    identity: ClassVar[Identity] = Identity("Shift", ("input", "by"), by_hash=True)

    traits: ClassVar[Traits] = Traits(
        keeps_payloads=True,
        passes_presence=True,
        keeps_keys="at an instant",
        keeps_length=True,
        events="kept",
        retimes=True,
        moves_instants=True,
    )

    by: int

    def __post_init__(self) -> None:
        if not -FOREVER < self.by < FOREVER:
            raise PlanError(
                f"a stream cannot be moved by {self.by}",
                hint="use a duration; a negative one moves it to earlier times",
            )

    @property
    def remembers(self) -> bool:
        """No: each row leaves by itself."""
        return False

    @property
    def properties(self) -> Properties:
        """Those of the input; a point at the end of time stays open when it is moved away."""
        of_input = self.input.properties
        points = of_input.only_points and self.by >= 0
        return of_input.loosened(only_points=points, ties=of_input.ties)

    @property
    def label(self) -> str:
        """`Shift -10m`."""
        return f"Shift {show_span(self.by, self)}"

    def promise(self, *stables: Time) -> Time:
        """What is settled moves along."""
        stable = min(stables)
        if stable in (BEGINNING, FOREVER):
            return stable
        return Time(min(max(stable + self.by, BEGINNING), FOREVER))

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """The same lifetimes at other times."""
        (rows,) = inputs
        return LogicalStream.of(
            (payload, max(start + self.by, FIRST), FOREVER if end == FOREVER else self._end(end))
            for payload, start, end in rows.events()
        )

    def _end(self, end: int) -> int:
        return max(end + self.by, FIRST)
