"""The mean of all values: with a state, of a list, and of a table."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.model.numbers.digits import SUMS, carry, relieve, split
from anabranch.model.numbers.exact_numbers import Exact, quotients
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
    """The means of all windows of a table at once, rounded once as in the other forms."""
    window, value = table["window"].to_numpy(), table["value"].to_numpy()
    order = np.argsort(window, kind="stable")
    numbers, first, counts = np.unique(window[order], return_index=True, return_counts=True)
    if not len(first):
        return pa.table({"window": numbers, "value": pa.array([], pa.float64())})
    digits = relieve(split(value[order], SUMS), SUMS, len(value))
    sums = {slot: np.add.reduceat(digit, first) for slot, digit in digits.items()}
    means = quotients(Exact.of_digits(carry(sums, SUMS), SUMS), [counts])
    with np.errstate(invalid="ignore"):
        strange = np.where(np.isfinite(value[order]), 0.0, value[order])
        special = np.add.reduceat(strange, first)
    found = np.where(special != 0, special, means)
    return pa.table({"window": numbers, "value": pa.array(found, from_pandas=False)})
