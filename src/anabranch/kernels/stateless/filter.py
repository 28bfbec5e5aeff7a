"""Keep the rows whose payload satisfies a predicate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyarrow as pa

from anabranch.algebra.filter import Filter
from anabranch.kernels.columns.grouped import true_rows
from anabranch.kernels.contract.kernel import Stateless
from anabranch.model.batch import EventBatch
from anabranch.model.identity import Identity
from anabranch.model.time import Time


@final
@dataclass(frozen=True, slots=True)
class FilterKernel(Stateless):
    """All moves of an event have its payload, so they pass or fail together."""

    identity: ClassVar[Identity] = Identity("FilterKernel", ("node",))

    node: Filter

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """Unchanged."""
        return self.node.schema

    def interest(self, end: Time, side: int = 0) -> Time:
        """Lifetimes stay as they are."""
        del side
        return end

    def apply(self, batch: EventBatch) -> EventBatch:
        """Only true passes; false and null do not."""
        if not len(batch):
            return batch
        keep = true_rows(self.node.predicate.evaluate(batch.payload, len(batch)))
        return batch if len(keep) == len(batch) else batch.take(keep)
