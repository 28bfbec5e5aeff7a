"""Hold back what may still change, and let it go in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.node import Unary
from anabranch.algebra.traits import Traits
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanse(Unary):
    """The same stream, late: out(p, t) = in(p, t) before the output's stable point.

    Only inserts leave, ordered by start. With `cut`, whatever holds before the stable point
    leaves, cut there. Without, events leave whole: each when it is fully frozen and no event that
    starts earlier is still held; the output is then stable up to the least start that is held, so
    an event without end holds back everything from its start on.
    """

    identity: ClassVar[Identity] = Identity("Cleanse", ("input", "cut"), by_hash=True)

    # It passes presence, too. That is not declared: windows below would change their state.
    traits: ClassVar[Traits] = Traits(
        snapshot_reducible=True,
        same_snapshots=True,
        keeps_payloads=True,
        keeps_keys="in all of time",
        cuts=True,
    )

    holds_back: ClassVar[bool] = True

    cut: bool = True

    @property
    def properties(self) -> Properties:
        """Those of the input, and nothing is ever taken back; whole events are put in order."""
        final = self.input.properties.emitted("final")
        return final if self.cut else replace(final, ties=True)

    @property
    def label(self) -> str:
        """`Cleanse`, `Cleanse whole events`."""
        return "Cleanse" if self.cut else "Cleanse whole events"

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """The identity: what is held back is not lost."""
        (rows,) = inputs
        return rows
