"""Give lifetimes another end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.granularity import show_span
from anabranch.algebra.node import Unary
from anabranch.algebra.time_window import UNBOUNDED
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER, Duration


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AlterLifetime(Unary):
    """Change the end of every longest lifetime [s, e) of each payload.

    `duration` d: [s, s + d). `extend` by d: [s, e + d). `at_most` d: [s, min(e, s + d)). The
    longest lifetimes are those of the canonical form, level by level, so that the result does not
    depend on how the input happens to be cut.
    """

    identity: ClassVar[Identity] = Identity(
        "AlterLifetime", ("input", "duration", "extend", "at_most"), by_hash=True
    )

    traits: ClassVar[Traits] = Traits(keeps_payloads=True, retimes=True)

    duration: Duration | None = None
    extend: Duration | None = None
    at_most: Duration | None = None

    def __post_init__(self) -> None:
        given = [d for d in (self.duration, self.extend, self.at_most) if d is not None]
        if len(given) != 1:
            raise PlanError(
                f"alter_lifetime takes one of three arguments, not {len(given)}",
                hint="name duration, extend or at_most",
            )
        least = 0 if self.extend is not None else 1
        if not least <= given[0] <= FOREVER:
            raise PlanError(
                f"a lifetime cannot change by {given[0]}",
                where=self.label,
                hint="use a positive duration",
            )

    @property
    def properties(self) -> Properties:
        """Lifetimes that get longer may overlap; a later row may join two of them."""
        points = self.duration == 1 or self.at_most == 1
        apart = points or self.extend == 0 or self.at_most is not None
        of_input = self.input.properties
        return replace(
            Properties(),
            only_points=points,
            no_duplicates=apart and of_input.no_duplicates,
            single=apart and of_input.single,
        )

    @property
    def label(self) -> str:
        """`AlterLifetime extend 10m`."""
        named = {"duration": self.duration, "extend": self.extend, "at most": self.at_most}
        shown = [f"{name} {show_span(d, self)}" for name, d in named.items() if d is not None]
        return f"AlterLifetime {', '.join(shown)}"

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """The longest lifetimes with other ends."""
        (rows,) = inputs
        return LogicalStream.of(
            (payload, start, self._end(start, end)) for payload, start, end in rows.events()
        )

    def _end(self, start: int, end: int) -> int:
        if self.duration is not None:
            return _later(start, self.duration)
        if self.extend is not None:
            return _later(end, self.extend)
        assert self.at_most is not None
        return min(end, _later(start, self.at_most))


def _later(time: int, span: Duration) -> int:
    """A span without bound reaches the end of time from everywhere, from before instant 0 too."""
    return FOREVER if span == UNBOUNDED else time + span
