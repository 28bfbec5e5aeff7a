"""Lifetimes as their two edges: a point with +1 where one begins, with -1 where one ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final, final

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.node import Unary
from anabranch.algebra.source import check_names
from anabranch.algebra.to_stream import jumps
from anabranch.algebra.traits import Traits
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream, Payload

SIGN: Final = "sign"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ToSigned(Unary):
    """Positive and negative points (Kraemer 2007, 14.1 and 17.3).

    Where the multiplicity of a payload rises by k, k points with sign +1; where it falls by k, k
    points with sign -1, at the first instant at which it is less. What never ends has no -1.
    """

    identity: ClassVar[Identity] = Identity("ToSigned", ("input", "column"), by_hash=True)

    traits: ClassVar[Traits] = Traits(retimes=True)

    column: str = SIGN

    def __post_init__(self) -> None:
        check_names(self.schema.names, where=self.label)

    @property
    def schema(self) -> pa.Schema:
        """That of the input and the sign."""
        return self.input.schema.append(pa.field(self.column, pa.int8()))

    @property
    def properties(self) -> Properties:
        """Points; what begins where another one ends withdraws both edges."""
        of_input = self.input.properties
        return replace(Properties(), only_points=True, no_duplicates=of_input.no_duplicates)

    @property
    def label(self) -> str:
        """`ToSigned`."""
        return "ToSigned" if self.column == SIGN else f"ToSigned {self.column}"

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """One point per change of a multiplicity by one."""
        (rows,) = inputs

        def points() -> Iterator[tuple[Payload, int, int]]:
            for payload, steps in rows.steps.items():
                for instant, jump in jumps(steps):
                    sign = 1 if jump > 0 else -1
                    yield from [((*payload, sign), instant, instant + 1)] * abs(jump)

        return LogicalStream.of(points())
