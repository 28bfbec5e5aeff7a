"""Rows of several batches by position; columns are gathered on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.grouped import Ints, taken
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

    def __len__(self) -> int:
        return sum(map(len, self.positions))

    @property
    def names(self) -> list[str]:
        """The names of the columns of the first part."""
        names: list[str] = self.parts[0].schema.names
        return names

    def numbers(self, name: str) -> np.ndarray:
        """A column of numbers without nulls."""
        found = gather([part.column(name) for part in self.parts], self.positions)
        assert isinstance(found, np.ndarray)
        return found

    def column(self, name: str) -> pa.Array:
        """A column of any type."""
        found = gather([part.column(name) for part in self.parts], self.positions)
        return pa.array(found) if isinstance(found, np.ndarray) else found

    def take(self, rows: Ints) -> RowsAt:
        """Some of these rows: ascending, and perhaps several times."""
        if len(self.parts) == 1:
            return RowsAt(self.parts, [taken(self.positions[0], rows)])
        stops = np.cumsum([len(each) for each in self.positions])
        cuts = [0, *np.searchsorted(rows, stops).tolist()]
        chosen = [
            taken(each, rows[cuts[index] : cuts[index + 1]] - (stops[index] - len(each)))
            for index, each in enumerate(self.positions)
        ]
        return RowsAt(self.parts, chosen)
