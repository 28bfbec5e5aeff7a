"""Put streams together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.node import Node, check_clocks
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Union(Node):
    """Add up multiplicities, as UNION ALL: out(p, t) = in1(p, t) + in2(p, t) + ...

    Columns must have the same names and types in the same order (Kraemer 2007, 8.1.3).
    """

    identity: ClassVar[Identity] = Identity("Union", ("inputs",), by_hash=True)

    traits: ClassVar[Traits] = Traits(snapshot_reducible=True, passes_presence=True, events="kept")

    inputs: tuple[Node, ...] = field()

    def __post_init__(self) -> None:
        if not self.inputs:
            raise PlanError("a union needs at least one input", hint="name at least one stream")
        check_clocks(self.inputs, where="a union")
        first = columns_of(self.inputs[0].schema)
        for position, node in enumerate(self.inputs[1:], start=2):
            other = columns_of(node.schema)
            if other != first:
                shown = [", ".join(f"{name} {kind}" for name, kind in it) for it in (first, other)]
                raise PlanError(
                    f"input {position} of a union has columns that differ from those of the first",
                    where=f"first: {shown[0]}\ninput {position}: {shown[1]}",
                    hint="select the same columns, in the same order, under the same names",
                )

    @property
    def schema(self) -> pa.Schema:
        """The columns all inputs have."""
        return self.inputs[0].schema

    @property
    def remembers(self) -> bool:
        """No: rows pass through."""
        return False

    @property
    def properties(self) -> Properties:
        """What holds for all inputs."""
        each = [node.properties for node in self.inputs]
        if len(each) == 1:
            return each[0]
        return Properties(
            insert_only=all(of_input.insert_only for of_input in each),
            only_points=all(of_input.only_points for of_input in each),
        )

    @property
    def label(self) -> str:
        """`Union`."""
        return "Union"

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """All payloads of all inputs, with their multiplicities."""
        first, *others = inputs
        return first.union(*others)


def columns_of(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Names and types; whether a column may be null and what else is noted does not count."""
    return [(column.name, column.type) for column in schema]
