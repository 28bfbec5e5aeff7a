"""Rows of several batches by position; columns are gathered on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.grouped import Ints, taken, without
from anabranch.kernels.trace.runs import gather


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowsAt:
    """The rows at some positions of each part, one part behind the other.

    Attributes:
        parts: Batches that have the columns in question, at least one.
        positions: Which of the rows of each part, in any order.
    """

    parts: Sequence[pa.RecordBatch]
    positions: Sequence[Ints]

    @staticmethod
    def concat(several: Sequence[RowsAt]) -> RowsAt:
        """The rows of all of them."""
        return RowsAt(
            [part for each in several for part in each.parts],
            [part for each in several for part in each.positions],
        )

    @staticmethod
    def cut(parts: Sequence[pa.RecordBatch], positions: Ints, stops: Ints) -> RowsAt:
        """The rows of all parts, whose positions are in one column up to a stop for each."""
        edges = pairwise([0, *stops.tolist()])
        return RowsAt(parts, [positions[first:last] for first, last in edges])

    def __len__(self) -> int:
        return sum(map(len, self.positions))

    @property
    def names(self) -> list[str]:
        """The names of the columns of the first part."""
        names: list[str] = self.parts[0].schema.names
        return names

    def values(self, name: str) -> np.ndarray | pa.Array:
        """A column, as numpy if it has plain numbers without nulls."""
        return gather([part.column(name) for part in self.parts], self.positions)

    def numbers(self, name: str) -> np.ndarray:
        """A column of numbers without nulls."""
        found = self.values(name)
        assert isinstance(found, np.ndarray)
        return found

    def column(self, name: str) -> pa.Array:
        """A column of any type."""
        found = self.values(name)
        return pa.array(found) if isinstance(found, np.ndarray) else found

    def take(self, rows: Ints) -> RowsAt:
        """Some of these rows: ascending, and perhaps several times."""
        if len(self.parts) == 1:
            return RowsAt(self.parts, [taken(self.positions[0], rows)])
        parts, positions, first, begins = [], [], 0, 0
        stops = list(accumulate(map(len, self.positions)))
        cuts = rows.searchsorted(stops).tolist()
        for part, each, stop, last in zip(self.parts, self.positions, stops, cuts, strict=True):
            if last > first:
                parts.append(part)
                positions.append(taken(each, rows[first:last] - begins))
            first, begins = last, stop
        return RowsAt(parts, positions) if parts else RowsAt(self.parts[:1], [rows])

    def without(self, rows: Ints) -> RowsAt:
        """All but these rows, which ascend; positions are written to."""
        positions, first, begins = [], 0, 0
        stops = list(accumulate(map(len, self.positions)))
        cuts = rows.searchsorted(stops).tolist()
        for each, stop, last in zip(self.positions, stops, cuts, strict=True):
            positions.append(without(each, rows[first:last] - begins) if last > first else each)
            first, begins = last, stop
        return RowsAt(self.parts, positions)
