"""The rows of a batch of a merge, before anything is known of them but who has sent them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.kernels.contract.column_names import CHECK, COPY, ID, TIMES
from anabranch.kernels.contract.keys import ids_and_checks
from anabranch.kernels.contract.packed_events import payload_names, payload_of
from anabranch.kernels.merge.nodes import Payloads


@final
@dataclass(frozen=True, slots=True, eq=False)
class ArrivedRows:
    """What the exchange brought, with payloads left where they are."""

    columns: dict[str, np.ndarray]
    payload: Payloads

    @staticmethod
    def of(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> ArrivedRows:
        """Parts, one behind the other."""
        columns = {
            name: np.concatenate([part.column(name).to_numpy() for part in parts])
            for name in (ID, CHECK, COPY, *TIMES)
        }
        return ArrivedRows(columns, Payloads(tuple(payload_of(part, schema) for part in parts)))

    def column(self, name: str) -> np.ndarray:
        """A column of the engine's own."""
        return self.columns[name]

    def take(self, rows: np.ndarray) -> ArrivedRows:
        """Some of the rows."""
        taken = {name: column[rows] for name, column in self.columns.items()}
        return ArrivedRows(taken, self.payload.select(rows))

    def by_payload(self) -> ArrivedRows:
        """The same, told apart by their payloads and not by their starts."""
        rows = len(self.columns[ID])
        ids, check = ids_and_checks(self.payload.take(np.arange(rows)).columns, rows)
        return ArrivedRows({**self.columns, ID: ids, CHECK: check}, self.payload)

    def as_batch(self) -> pa.RecordBatch:
        """As the exchange brought them, with payloads."""
        payload = self.payload.take(np.arange(len(self.columns[ID])))
        names = payload_names(payload.schema)
        arrays = {name: pa.array(column) for name, column in self.columns.items()}
        return pa.RecordBatch.from_pydict({**arrays, **dict(zip(names, payload.columns))})
