"""See a stream at the instants of a coarser grid only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.node import Node, Unary, clock_of
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Granularity(Unary):
    """Sample and hold: out(p, t) = in(p, floor(t / granule) * granule).

    Samples are taken at the multiples of `granule`, before instant 0 too, and hold until the next
    one. So the output is exact at these instants (Kraemer 2007, 20.3-4).
    """

    identity: ClassVar[Identity] = Identity("Granularity", ("input", "granule"), by_hash=True)

    traits: ClassVar[Traits] = Traits(
        keeps_payloads=True,
        passes_presence=True,
        keeps_keys="at an instant",
        events="one by one",
        retimes=True,
        moves_instants=True,
    )

    granule: Duration

    def __post_init__(self) -> None:
        if not 1 <= self.granule < FOREVER:
            raise PlanError(
                f"a granule cannot have size {self.granule}",
                hint="use a positive duration; 1 keeps every instant",
            )

    @property
    def remembers(self) -> bool:
        """No: each row leaves by itself."""
        return False

    @property
    def properties(self) -> Properties:
        """Those of the input, but a sampled point holds for a whole granule."""
        of_input = self.input.properties
        return of_input.loosened(only_points=of_input.only_points and self.granule == 1)

    @property
    def label(self) -> str:
        """`Granularity 1m`."""
        return f"Granularity {show_span(self.granule, self)}"

    def promise(self, *stables: Time) -> Time:
        """Up to the next sample: the one before it holds until then."""
        stable = min(stables)
        return stable if stable == BEGINNING else Time(min(self._next(stable), FOREVER))

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """A lifetime is seen from its first sample to the first one that it no longer has."""
        (rows,) = inputs
        return LogicalStream.of(
            (payload, self._next(start), self._next(end)) for payload, start, end in rows.events()
        )

    def _next(self, instant: int) -> int:
        return -(-instant // self.granule) * self.granule


def show_span(duration: int, over: Node) -> str:
    """`10m` where it is known how long a chronon is, else their number."""
    return clock_of(over).format_duration(duration)
