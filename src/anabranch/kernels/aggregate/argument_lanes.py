"""The columns of a timeline that lanes of an argument are kept in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import pyarrow as pa

from anabranch.aggregates.lanes import Statistic, ValueLane
from anabranch.kernels.columns.codes import has_code
from anabranch.kernels.columns.sum_lanes import SumLane
from anabranch.model.numbers.digits import SQUARES, SUMS, WHOLE_SQUARES

Column = tuple[str, pa.DataType]


@final
@dataclass(frozen=True, slots=True)
class AdditiveLanes:
    """Counts and sums over the values of one argument: what is added up row by row.

    Whole numbers are added up in limbs of 32 bits, which also show an overflow, floats in the slots
    of `model.numbers.digits`.

    Attributes:
        owner: The number of the argument; with a `d`, over its distinct values.
        kind: The type of the values.
    """

    owner: str
    kind: pa.DataType

    @property
    def count(self) -> str:
        """How many values are not NULL."""
        return f"count{self.owner}"

    @property
    def mix(self) -> str:
        """The sum of the hashes of all values."""
        return f"mix{self.owner}"

    @property
    def is_floating(self) -> bool:
        """Whether values are floats."""
        return bool(pa.types.is_floating(self.kind))

    @property
    def limbs(self) -> tuple[str, ...]:
        """The sum of whole numbers, the limb of the largest digits first; floats have none."""
        if self.is_floating:
            return ()
        return tuple(f"sum{self.owner}.{limb}" for limb in range(limb_count(self.kind)))

    @property
    def total(self) -> SumLane:
        """The sum of floats."""
        return total_lane(self.owner)

    @property
    def squares(self) -> SumLane:
        """The sum of squares."""
        return SumLane(f"square{self.owner}", SQUARES if self.is_floating else WHOLE_SQUARES)


def total_lane(owner: str) -> SumLane:
    """The lanes of a sum of floats."""
    return SumLane(f"total{owner}", SUMS)


def limb_count(kind: pa.DataType) -> int:
    """How many limbs the sum of whole numbers of a type has.

    Three limbs of a decimal, the first with 64 bits, hold sums below 2^127: more than 10^20 values
    of 18 digits. Longer decimals have a limb more, so that a sum that is too large shows.
    """
    if pa.types.is_decimal(kind):
        return 3 if kind.precision <= 18 else 4
    return 2 if kind.bit_width > 32 else 1


@final
@dataclass(frozen=True, slots=True)
class ExtremeLane:
    """The smallest or the largest value of one argument.

    Attributes:
        argument: The number of the argument.
        lane: Which of the two.
        kind: The type of the values.
    """

    argument: int
    lane: ValueLane
    kind: pa.DataType

    @property
    def is_smallest(self) -> bool:
        """Whether it is the smallest value."""
        return self.lane is ValueLane.SMALLEST

    @property
    def name(self) -> str:
        """Its column."""
        return f"{self.lane.value}{self.argument}"

    @property
    def source(self) -> str:
        """The column of arriving rows and of events with the values."""
        return value_column(self.argument)


@final
@dataclass(frozen=True, slots=True)
class StatisticLane:
    """The value at an index among the values of one argument.

    Values that have a code are kept as such, others as they are, with the number of values that are
    smaller, and smaller or equal: from there the next value is found without counting again.

    Attributes:
        argument: The number of the argument.
        statistic: Which value.
        ranked: The type of the values that are put in order.
    """

    argument: int
    statistic: Statistic
    ranked: pa.DataType

    @property
    def name(self) -> str:
        """The column of the value, or of its code."""
        return f"{self.statistic.rank.value}{self.argument}.{self.statistic.fraction}"

    @property
    def below(self) -> str:
        """How many values are smaller."""
        return f"{self.name}.below"

    @property
    def upto(self) -> str:
        """How many values are smaller or equal."""
        return f"{self.name}.upto"

    @property
    def columns(self) -> tuple[Column, ...]:
        """All its columns."""
        kind = pa.int64() if has_code(self.ranked) else self.ranked
        return (self.name, kind), (self.below, pa.int64()), (self.upto, pa.int64())

    @property
    def added(self) -> tuple[str, ...]:
        """Those that earlier versions did not keep; their state has NULL there."""
        return () if has_code(self.ranked) else (self.below, self.upto)


def value_column(argument: int) -> str:
    """The column of arriving rows with the values of an argument."""
    return f"value{argument}"
