"""Compute new columns from each payload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyarrow as pa

from anabranch.algebra.map import Map
from anabranch.expressions.expression import evaluate_all
from anabranch.kernels.contract.kernel import Stateless
from anabranch.model.batch import EventBatch
from anabranch.model.identity import Identity
from anabranch.model.time import Time


@final
@dataclass(frozen=True, slots=True)
class MapKernel(Stateless):
    """Lifetimes stay; events whose payloads become equal stay two events."""

    identity: ClassVar[Identity] = Identity("MapKernel", ("node",))

    node: Map

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """The computed columns."""
        return self.node.schema

    def interest(self, end: Time, side: int = 0) -> Time:
        """Lifetimes stay as they are."""
        del side
        return end

    def apply(self, batch: EventBatch) -> EventBatch:
        """The same moves of the computed payloads."""
        parts = [part for _, part in self.node.columns]
        columns = evaluate_all(parts, batch.payload, len(batch))
        return batch.with_payload(pa.RecordBatch.from_arrays(columns, schema=self.schema))
