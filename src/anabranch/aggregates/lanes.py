"""Lanes: what is kept of an argument over time, as values, and how an aggregate reads them.

An aggregate function names the lanes that it needs; aggregates of one argument share them. Who
keeps them offers a `LaneView`: the timelines of the kernels do, and so do the windows of the time
axis, which have all their values at hand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import Enum
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.aggregates.value_groups import Floats, Ints, Mask, as_numbers
from anabranch.model.numbers.exact_numbers import Exact
from anabranch.model.numbers.struct_order import StructOrder


@final
class ValueLane(Enum):
    """What may be kept of the values of one argument, beside their number."""

    TOTAL = "total"
    """The exact sum."""

    SQUARES = "squares"
    """The exact sum of squares."""

    SMALLEST = "min"
    """The smallest value."""

    LARGEST = "max"
    """The largest value."""

    VALUES = "values"
    """All values in order, each with its multiplicity."""


@final
class Rank(Enum):
    """How the index of a value among all others follows from their number."""

    LOW = "low"
    """The last index at or below the fraction, as `percentile` has it."""

    HIGH = "high"
    """The first index at or above it."""

    DISC = "disc"
    """That of `percentile_disc`."""


@final
@dataclass(frozen=True, slots=True)
class Statistic:
    """The value at an index that follows from how many values there are.

    `LOW` and `HIGH` are the neighbours that `percentile` lies between (one and the same where a
    value lies just there).
    """

    rank: Rank
    fraction: float

    def index(self, count: Ints) -> Ints:
        """The index among so many values, from 0 on, in the arithmetic of Spark."""
        if self.rank is Rank.DISC:
            index = np.ceil(count * self.fraction) - 1
        else:
            exact = (count - 1) * self.fraction
            index = np.floor(exact) if self.rank is Rank.LOW else np.ceil(exact)
        return np.asarray(np.maximum(index, 0), np.int64)


Need = ValueLane | Statistic
"""One lane; the number of values that are not NULL is there always."""


class LaneView(ABC):
    """The lanes of one argument, at many instants of many groups, or in many windows.

    An aggregate asks for lanes that it has named, for no others. NULLs do not count.
    """

    kind: pa.DataType
    """The type of the argument."""

    text: str
    """The argument, for errors."""

    @property
    @abstractmethod
    def count(self) -> Ints:
        """How many values there are; where there are none, the other lanes say nothing."""

    @abstractmethod
    def rounded_total(self, divisor: Ints | None) -> Floats:
        """Of floats: `TOTAL`, or what it is over a divisor, rounded once; NaN and inf count."""

    @abstractmethod
    def limbs(self) -> list[Ints]:
        """Of whole numbers and decimals: `TOTAL` in limbs, the largest digits first."""

    @abstractmethod
    def total(self) -> Exact:
        """`TOTAL` as exact numbers; of decimals in units of the last digit."""

    @abstractmethod
    def squares(self) -> Exact:
        """`SQUARES` as exact numbers."""

    @abstractmethod
    def is_odd(self) -> Mask:
        """Where NaN or an infinity is among the values."""

    @abstractmethod
    def extreme(self, lane: ValueLane) -> pa.Array:
        """`SMALLEST` or `LARGEST`; null where there is no value."""

    @abstractmethod
    def at(self, statistic: Statistic) -> pa.Array:
        """The value at an index; null where there is no value."""

    def number_at(self, statistic: Statistic) -> Floats:
        """The value at an index as a float; 0 where there is no value."""
        numbers = self.at(statistic).cast(pa.float64(), safe=False).fill_null(0.0)
        floats: Floats = numbers.to_numpy(zero_copy_only=False)
        return floats


@final
@dataclass(frozen=True, slots=True, eq=False)
class OrderedValues:
    """All values of many groups: `VALUES`, those of a group side by side, the smallest first.

    Attributes:
        length: How many groups there are, those without a value among them.
        group: Of each value, its group.
        values: The values; where they are `merged`, no group has one twice.
        counts: How often each holds.
        rows: Where values are in many groups: of each value, its row in `values`, which has no
            value of a group twice. None: `values` has them side by side.
    """

    length: int
    group: Ints
    values: pa.Array
    counts: Ints
    rows: Ints | None = None

    def merged(self) -> OrderedValues:
        """Equal values of a group once, with the sum of their counts; NaN equals NaN."""
        if not len(self.group):
            return self
        first = np.ones(len(self.group), np.bool_)
        first[1:] = self.group[1:] != self.group[:-1]
        first[1:] |= ~_equals_next(self.values) if self.rows is None else np.diff(self.rows) != 0
        starts = np.flatnonzero(first)
        if len(starts) == len(self.group):
            return self
        counts = np.add.reduceat(self.counts, starts)
        if self.rows is not None:
            return replace(self, group=self.group[starts], counts=counts, rows=self.rows[starts])
        values = self.values.take(pa.array(starts))
        return replace(self, group=self.group[starts], counts=counts, values=values)

    def once(self) -> OrderedValues:
        """Every value once, however often it holds."""
        merged = self.merged()
        return replace(merged, counts=np.ones(len(merged.counts), np.int64))

    def repeated(self) -> Ints:
        """Where every value is in `values`, as often as it holds."""
        rows = np.arange(len(self.group)) if self.rows is None else self.rows
        return rows if (self.counts == 1).all() else np.repeat(rows, self.counts)

    def lengths(self) -> Ints:
        """How many values each group has."""
        if (self.counts == 1).all():
            return np.bincount(self.group, minlength=self.length)
        lengths = np.zeros(self.length, np.int64)
        np.add.at(lengths, self.group, self.counts)
        return lengths

    def spread(self, found: Ints) -> pa.Array:
        """Per group the value at a row of these; null for groups of which none is given."""
        source = np.full(self.length, -1)
        source[self.group[found]] = found if self.rows is None else self.rows[found]
        return self.values.take(pa.array(source, mask=source < 0))


def _equals_next(values: pa.Array) -> Mask:
    """Whether each value but the last equals the next one."""
    numbers = as_numbers(values)
    if pa.types.is_struct(values.type):
        numbers = StructOrder.of(values).encode(values)
    if numbers is None:
        same: Mask = pc.equal(values[1:], values[:-1]).to_numpy(zero_copy_only=False)
        return same
    equal = numbers[1:] == numbers[:-1]
    if numbers.dtype.kind == "f":
        equal |= np.isnan(numbers[1:]) & np.isnan(numbers[:-1])
    return np.asarray(equal)
