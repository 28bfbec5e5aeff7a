"""Compare two streams payload by payload, at every instant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, final, get_args

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.node import Node, check_clocks
from anabranch.algebra.traits import Traits
from anabranch.algebra.union import columns_of
from anabranch.errors import PlanError
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream

SetKind = Literal["difference", "strict difference", "intersection", "max-union"]

MEANINGS: Final[Mapping[SetKind, Callable[[int, int], int]]] = {
    "difference": lambda left, right: max(left - right, 0),
    "strict difference": lambda left, right: left if right == 0 else 0,
    "intersection": min,
    "max-union": max,
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SetOperation(Node):
    """A function of both multiplicities of every payload (Kraemer 2007, 8.1.6 and 8.1.9).

    `difference` is EXCEPT ALL: max(left - right, 0). `strict difference` keeps all copies of
    what is not on the right at all. `intersection` is INTERSECT ALL: min. `max-union`: max.
    """

    identity: ClassVar[Identity] = Identity("SetOperation", ("kind", "left", "right"), by_hash=True)

    traits: ClassVar[Traits] = Traits(snapshot_reducible=True, writes_anew=True)

    kind: SetKind
    left: Node
    right: Node

    def __post_init__(self) -> None:
        if self.kind not in get_args(SetKind):
            raise PlanError(
                f"there is no set operation '{self.kind}'",
                hint=f"set operations are: {', '.join(get_args(SetKind))}",
            )
        check_clocks(self.inputs, where=f"a {self.kind}")
        first, second = columns_of(self.left.schema), columns_of(self.right.schema)
        if first != second:
            shown = [", ".join(f"{name} {kind}" for name, kind in it) for it in (first, second)]
            raise PlanError(
                f"the sides of a {self.kind} have different columns",
                where=f"left: {shown[0]}\nright: {shown[1]}",
                hint="select the same columns, in the same order, under the same names",
            )

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Left and right."""
        return (self.left, self.right)

    @property
    def schema(self) -> pa.Schema:
        """The columns both sides have."""
        return self.left.schema

    @property
    def properties(self) -> Properties:
        """What comes on one side may take away what the other one gave."""
        left, right = self.left.properties, self.right.properties
        if self.kind == "max-union":
            return Properties(no_duplicates=left.no_duplicates and right.no_duplicates)
        both = self.kind == "intersection"
        return Properties(
            no_duplicates=left.no_duplicates or (both and right.no_duplicates),
            single=left.single or (both and right.single),
        )

    @property
    def label(self) -> str:
        """`Difference`."""
        return self.kind.capitalize()

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """The function of both multiplicities, at every instant."""
        left, right = inputs
        return left.combine(right, MEANINGS[self.kind])
