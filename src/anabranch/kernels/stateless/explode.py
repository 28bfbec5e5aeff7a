"""Make a row of every item of an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.forms.explode import Explode
from anabranch.expressions.expression import evaluate_all
from anabranch.kernels.contract.kernel import Stateless
from anabranch.model.batch import EventBatch
from anabranch.model.identity import Identity
from anabranch.model.time import Time


@final
@dataclass(frozen=True, slots=True)
class ExplodeKernel(Stateless):
    """A move of an end moves the ends of all rows that were made of the row."""

    identity: ClassVar[Identity] = Identity("ExplodeKernel", ("node",))

    node: Explode

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """The columns of the input, then those of the item."""
        return self.node.schema

    def interest(self, end: Time, side: int = 0) -> Time:
        """Lifetimes stay as they are."""
        del side
        return end

    def apply(self, batch: EventBatch) -> EventBatch:
        """The same moves, once per item."""
        (arrays,) = evaluate_all([self.node.argument], batch.payload, len(batch))
        lengths = pc.list_value_length(arrays).fill_null(0).to_numpy(zero_copy_only=False)
        items = arrays.flatten()
        counts = np.maximum(lengths, 1) if self.node.outer else lengths
        rows = np.repeat(np.arange(len(batch)), counts)
        missing = None
        if len(rows) > len(items):
            # Items follow each other in the order of rows; rows without one take none of them.
            missing = np.repeat(lengths == 0, counts)
            position = np.cumsum(~missing) - 1
            items = items.take(pa.array(position, mask=missing))
        columns = [items.cast(self.schema.field(-1).type)]
        if self.node.position is not None:
            index = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
            columns.insert(0, pa.array(index.astype(np.int32), mask=missing))
        moved = batch.take(rows)
        payload = [*moved.payload.columns, *columns]
        return moved.with_payload(pa.RecordBatch.from_arrays(payload, schema=self.schema))
