"""A lazy concatenation of record batches; columns are gathered on demand."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.grouped import Ints


@final
@dataclass(frozen=True, slots=True, eq=False)
class LazyPart:
    """Rows of one batch: those at some positions, or all of them."""

    columns: Sequence[pa.Array]
    length: int
    positions: Ints | None = None

    @staticmethod
    def of(rows: pa.RecordBatch, width: int, positions: Ints | None = None) -> LazyPart:
        """Payloads out of a batch that has them in columns by number."""
        columns = [rows.column(f"key{index}") for index in range(width)]
        return LazyPart(columns, rows.num_rows if positions is None else len(positions), positions)

    def at(self, rows: Ints) -> LazyPart:
        """Some of the rows."""
        chosen = rows if self.positions is None else self.positions[rows]
        return LazyPart(self.columns, len(rows), chosen)

    def take(self, index: int, rows: Ints | None) -> pa.Array:
        """The values of some rows (or all) in one column."""
        column = self.columns[index]
        if self.positions is not None:
            rows = self.positions if rows is None else self.positions[rows]
        return column if rows is None else column.take(pa.array(rows))


@final
@dataclass(frozen=True, slots=True, eq=False)
class LazyConcat:
    """The rows of several parts, one behind the other."""

    schema: pa.Schema
    parts: Sequence[LazyPart]

    def __len__(self) -> int:
        return sum(part.length for part in self.parts)

    def columns(self, names: Collection[str]) -> pa.RecordBatch:
        """Some columns of all rows."""
        fields = [(index, each) for index, each in enumerate(self.schema) if each.name in names]
        parts = [part for part in self.parts if part.length] or self.parts[:1]
        arrays = []
        for index, _ in fields:
            values = [part.take(index, None) for part in parts]
            arrays.append(values[0] if len(values) == 1 else pa.concat_arrays(values))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([each for _, each in fields]))

    def take(self, rows: Ints) -> pa.RecordBatch:
        """All columns of some rows."""
        indexes = range(len(self.schema))
        return pa.RecordBatch.from_arrays(self._take(rows, indexes), schema=self.schema)

    def column(self, index: int, rows: Ints) -> pa.Array:
        """The values of some rows in one column."""
        return self._take(rows, [index])[0]

    def _take(self, rows: Ints, indexes: Sequence[int]) -> list[pa.Array]:
        stops = np.cumsum([part.length for part in self.parts])
        owner = np.searchsorted(stops, rows, side="right")
        sources: list[tuple[LazyPart, Ints]] = []
        where: list[Ints] = []
        for number, part in enumerate(self.parts):
            here = np.flatnonzero(owner == number)
            if len(here):
                sources.append((part, rows[here] - (stops[number] - part.length)))
                where.append(here)
        if not sources:
            return [pa.array([], self.schema.field(index).type) for index in indexes]
        arrays = [[part.take(index, chosen) for part, chosen in sources] for index in indexes]
        if len(sources) == 1:
            return [values[0] for values in arrays]
        back = np.empty(len(rows), np.int64)
        back[np.concatenate(where)] = np.arange(len(rows))
        return [pa.concat_arrays(values).take(pa.array(back)) for values in arrays]
