"""The mean of all values: with a state, of a list, and of a table."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.userops.decorators import uda
from anabranch.userops.shipped.exact_sum import ZERO, ExactSum, over, plus

State: TypeAlias = tuple[int, ExactSum]
"""How many values there are, and their sum."""


@uda(name="mean")
class Mean:
    """The mean, kept up to date value by value. Its sum is exact, so removing leaves no trace."""

    def initial(self) -> State:
        """No values."""
        return 0, ZERO

    def add(self, state: State, value: float) -> State:
        """One value more."""
        count, total = state
        return count + 1, plus(total, value)

    def remove(self, state: State, value: float) -> State:
        """One value less."""
        count, total = state
        return count - 1, plus(total, value, -1)

    def compute(self, state: State) -> float | None:
        """The mean, rounded once."""
        count, total = state
        return over(total, count) if count else None


@uda
def mean_plain(values: list[float]) -> float | None:
    """The mean of a list.

    >>> mean_plain([1.0, 2.0, 6.0])
    3.0
    """
    total = ZERO
    for value in values:
        total = plus(total, value)
    return over(total, len(values)) if values else None


@uda(frame="arrow", takes={"value": float}, returns=float, empty=None)
def mean_arrow(table: pa.Table) -> pa.Table:
    """The means of all windows of a table at once.

    Numbers are added up in order of their size, so that the order of events does not matter. Other
    than in the other forms every sum is rounded.
    """
    window, value = table["window"].to_numpy(), table["value"].to_numpy()
    order = np.lexsort((value, window))
    numbers, first, counts = np.unique(window[order], return_index=True, return_counts=True)
    with np.errstate(invalid="ignore", over="ignore"):
        sums = np.add.reduceat(value[order], first) if len(first) else np.array([], float)
    return pa.table({"window": numbers, "value": pa.array(sums / counts, from_pandas=False)})
