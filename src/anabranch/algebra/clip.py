"""Keep a stretch of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.node import Unary, clock_of
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Time


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Clip(Unary):
    """Only what holds in [start, end): out(p, t) = in(p, t) if start <= t < end, else 0."""

    identity: ClassVar[Identity] = Identity("Clip", ("input", "start", "end"), by_hash=True)

    traits: ClassVar[Traits] = Traits(
        keeps_payloads=True,
        passes_presence=True,
        keeps_keys="in all of time",
        events="one by one",
        retimes=True,
        moves_instants=True,
    )

    start: Time | None = None
    end: Time | None = None

    def __post_init__(self) -> None:
        if self.start is None and self.end is None:
            raise PlanError("a clip needs a start or an end", hint="name at least one of them")
        clock = clock_of(self.input)
        if not BEGINNING <= self.first < self.last <= FOREVER:
            raise PlanError(
                f"there is no instant between {clock.format(self.first)} and "
                f"{clock.format(self.last)}",
                where=self.label,
                hint="the end must be later than the start",
            )

    @property
    def first(self) -> Time:
        """The first instant that is kept."""
        return BEGINNING if self.start is None else self.start

    @property
    def last(self) -> Time:
        """The first instant that is no longer kept."""
        return FOREVER if self.end is None else self.end

    @property
    def remembers(self) -> bool:
        """No: each row leaves by itself."""
        return False

    @property
    def properties(self) -> Properties:
        """Those of the input."""
        return self.input.properties.loosened()

    @property
    def label(self) -> str:
        """`Clip [5, forever)`."""
        clock = clock_of(self)
        return f"Clip [{clock.format(self.first)}, {clock.format(self.last)})"

    def promise(self, *stables: Time) -> Time:
        """Nothing ever holds before the stretch, and nothing more once it is settled."""
        stable = min(stables)
        return FOREVER if stable >= self.last else Time(max(stable, self.first))

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """The parts of lifetimes inside the stretch."""
        (rows,) = inputs
        return LogicalStream.of(
            (payload, max(start, self.first), min(end, self.last))
            for payload, start, end in rows.events()
            if start < self.last and end > self.first
        )
