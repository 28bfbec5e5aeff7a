"""The value below which a part of all values lies: of a list, with a state, and of a table."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.userops.decorators import uda

State: TypeAlias = tuple[list[float], int]
"""All numbers in order, and how many are NaN."""


def _checked(q: float) -> None:
    if not 0 <= q <= 1:
        raise ValueError(f"q is {q}, but must be from 0 to 1")


def _at(numbers: list[float], nans: int, q: float) -> float | None:
    """The quantile of numbers in order; NaN counts as greater than all."""
    if not numbers and not nans:
        return None
    position = q * (len(numbers) + nans - 1)
    low = math.floor(position)
    if math.ceil(position) >= len(numbers):
        return math.nan
    return _between(numbers[low], numbers[math.ceil(position)], position - low)


def _between(low: float, high: float, part: float) -> float:
    # Infinity minus itself would be NaN, and the difference of huge numbers infinite.
    return low if low == high or not part else low * (1 - part) + high * part


@uda(name="quantile")
@dataclass(frozen=True)
class Quantile:
    """The value below which the part `q` of all values lies; between two values, in proportion."""

    q: float = 0.5

    def __post_init__(self) -> None:
        _checked(self.q)

    def compute(self, values: list[float]) -> float | None:
        """It takes its place in the ordered list."""
        numbers = sorted(value for value in values if not math.isnan(value))
        return _at(numbers, len(values) - len(numbers), self.q)


@uda(name="quantile_incremental")
@dataclass(frozen=True)
class QuantileIncremental:
    """The same; the numbers are kept in order."""

    q: float = 0.5

    def __post_init__(self) -> None:
        _checked(self.q)

    def initial(self) -> State:
        """No numbers."""
        return [], 0

    def add(self, state: State, value: float) -> State:
        """One number more, in its place."""
        numbers, nans = state
        if math.isnan(value):
            return numbers, nans + 1
        insort(numbers, value)
        return numbers, nans

    def remove(self, state: State, value: float) -> State:
        """One number less."""
        numbers, nans = state
        if math.isnan(value):
            return numbers, nans - 1
        del numbers[bisect_left(numbers, value)]
        return numbers, nans

    def compute(self, state: State) -> float | None:
        """Nothing is left to be ordered."""
        numbers, nans = state
        return _at(numbers, nans, self.q)


@uda(frame="arrow", takes={"value": float}, returns=float, empty=None)
@dataclass(frozen=True)
class QuantileArrow:
    """The same for all windows of a table at once."""

    q: float = 0.5

    def __post_init__(self) -> None:
        _checked(self.q)

    def compute(self, table: pa.Table) -> pa.Table:
        """Order all values once, by window and size; then look into each window."""
        window, value = table["window"].to_numpy(), table["value"].to_numpy()
        order = np.lexsort((value, window))
        value = value[order]
        numbers, first, counts = np.unique(window[order], return_index=True, return_counts=True)
        position = self.q * (counts - 1)
        low = np.floor(position).astype(np.int64)
        below, above = value[first + low], value[first + np.ceil(position).astype(np.int64)]
        part = position - low
        with np.errstate(invalid="ignore", over="ignore"):
            mixed = below * (1 - part) + above * part
        found = np.where((below == above) | (part == 0), below, mixed)
        return pa.table({"window": numbers, "value": pa.array(found, from_pandas=False)})
