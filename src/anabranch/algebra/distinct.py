"""Remove duplicates from every snapshot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import pyarrow as pa

from anabranch.algebra.node import Node, Properties
from anabranch.model.logical import LogicalStream


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct(Node):
    """Every payload at most once: out(p, t) = min(in(p, t), 1) (Kraemer 2007, 8.1.5).

    It works per instant: the same payload at another instant is not a duplicate.
    """

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The stream with duplicates."""
        return (self.input,)

    @property
    def schema(self) -> pa.Schema:
        """That of the input."""
        return self.input.schema

    @property
    def properties(self) -> Properties:
        """No payload twice; a later row may prolong a lifetime that was sent before."""
        known = self.input.properties
        return replace(Properties(), no_duplicates=True, only_points=known.only_points)

    @property
    def label(self) -> str:
        """`Distinct`."""
        return "Distinct"

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """One of each payload, wherever there is at least one."""
        (rows,) = inputs
        return rows.combine(LogicalStream(), lambda mine, _: min(mine, 1))
