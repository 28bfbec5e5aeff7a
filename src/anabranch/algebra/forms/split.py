"""Write the same snapshots with short lifetimes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.granularity import show_span
from anabranch.algebra.node import Unary
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER, Duration


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Split(Unary):
    """The same stream: out(p, t) = in(p, t). Only lifetimes are cut (Kraemer 2007, 11.7.1).

    A lifetime is cut every `length` instants, counted from its own start. One that does not end
    is cut as far as the stable point has come; its rest stays open.
    """

    identity: ClassVar[Identity] = Identity("Split", ("input", "length"), by_hash=True)

    traits: ClassVar[Traits] = Traits(
        snapshot_reducible=True,
        same_snapshots=True,
        keeps_payloads=True,
        passes_presence=True,
        keeps_keys="in all of time",
        cuts=True,
    )

    length: Duration

    def __post_init__(self) -> None:
        if not 1 <= self.length < FOREVER:
            raise PlanError(
                f"lifetimes cannot be cut into pieces of length {self.length}",
                hint="use a positive duration; 1 makes points",
            )

    @property
    def remembers(self) -> bool:
        """Not over points, which are as short as pieces can be."""
        return not self.input.properties.only_points

    @property
    def properties(self) -> Properties:
        """Points stay points; any other lifetime may be open, and cutting it further adjusts it."""
        return split_properties(self.input.properties)

    @property
    def label(self) -> str:
        """`Split 10m`."""
        return f"Split {show_span(self.length, self)}"

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """The identity: snapshots do not show how lifetimes are cut."""
        (rows,) = inputs
        return rows


def split_properties(properties: Properties) -> Properties:
    """What is known of a stream after its lifetimes are cut."""
    return Properties(
        insert_only=properties.insert_only and properties.only_points,
        only_points=properties.only_points,
        no_duplicates=properties.no_duplicates,
        single=properties.single,
    )
