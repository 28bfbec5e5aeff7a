"""Remove duplicates from every snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.node import Unary
from anabranch.algebra.traits import Traits
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct(Unary):
    """Every payload at most once: out(p, t) = min(in(p, t), 1) (Kraemer 2007, 8.1.5).

    It works per instant: the same payload at another instant is not a duplicate.
    """

    identity: ClassVar[Identity] = Identity("Distinct", ("input",), by_hash=True)

    traits: ClassVar[Traits] = Traits(
        snapshot_reducible=True,
        keeps_payloads=True,
        keeps_keys="at an instant",
        keeps_length=True,
        writes_anew=True,
    )

    @property
    def properties(self) -> Properties:
        """No payload twice; neighbouring lifetimes become one, also those of points."""
        return Properties(no_duplicates=True, single=self.input.properties.single)

    @property
    def label(self) -> str:
        """`Distinct`."""
        return "Distinct"

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """One of each payload, wherever there is at least one."""
        (rows,) = inputs
        return rows.combine(LogicalStream(), lambda mine, _: min(mine, 1))
