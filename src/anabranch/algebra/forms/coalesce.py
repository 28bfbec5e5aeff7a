"""Write the same snapshots with the longest lifetimes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.node import Unary
from anabranch.algebra.traits import Traits
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Coalesce(Unary):
    """The same stream: out(p, t) = in(p, t). Only the cut into lifetimes becomes canonical.

    Equal logical streams leave as equal events, which is what merging replicas needs.

    Attributes:
        for_merge: It was put there so that copies of the stream can be merged: whoever reads them
            compares events, and not snapshots.
    """

    identity: ClassVar[Identity] = Identity(
        "Coalesce",
        ("input",),
        ignored={"for_merge": "it says what the events are for, and they are the same"},
        by_hash=True,
    )

    traits: ClassVar[Traits] = Traits(
        snapshot_reducible=True,
        same_snapshots=True,
        keeps_payloads=True,
        passes_presence=True,
        keeps_keys="in all of time",
        keeps_length=True,
        writes_anew=True,
    )

    for_merge: bool = field(default=False, compare=False)

    @property
    def properties(self) -> Properties:
        """Snapshots are the same; a later row may prolong a lifetime that was sent before."""
        of_input = self.input.properties
        return Properties(no_duplicates=of_input.no_duplicates, single=of_input.single)

    @property
    def label(self) -> str:
        """`Coalesce`."""
        return "Coalesce"

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """The identity: snapshots do not show how lifetimes are cut."""
        (rows,) = inputs
        return rows
