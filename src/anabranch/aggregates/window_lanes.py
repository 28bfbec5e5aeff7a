"""The window form of aggregates: lanes of windows of the time axis, out of their values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.aggregates.function import AggregateFunction, Parameters
from anabranch.aggregates.lanes import LaneView, OrderedValues, Rank, Statistic, ValueLane
from anabranch.aggregates.value_groups import Floats, Ints, Mask, ValueGroups, as_numbers
from anabranch.aggregates.whole_sums import exact_of_limbs
from anabranch.model.numbers.digits import SQUARES, SUMS, WHOLE_SQUARES, split, split_squares
from anabranch.model.numbers.exact_numbers import Exact, quotients


def over_windows(
    function: AggregateFunction, parameters: Parameters, groups: ValueGroups, text: str
) -> pa.Array:
    """One result per window; `groups` has the values of each, `text` names them in errors.

    What it gives does not depend on the order of events: values are put in order, or added up
    exactly, with one rounding at the end.
    """
    if function.counts_once or parameters.distinct:
        groups = groups.distinct()
    kind = function.gives(groups.values.type)
    if not len(groups.which):
        found = pa.nulls(0, kind)
    elif function.finish_values is not None:
        found = function.finish_values(_in_order(groups), parameters)
    else:
        assert function.finish is not None
        found = function.finish(WindowLanes(groups, text), parameters)
    spread = groups.spread(found) if len(found) else pa.nulls(groups.length, kind)
    return spread if function.empty is None else pc.coalesce(spread, _constant(function, kind))


def _constant(function: AggregateFunction, kind: pa.DataType) -> pa.Scalar:
    """The result where there is no value."""
    return pa.scalar([] if function.empty == () else function.empty, kind)


def _in_order(groups: ValueGroups) -> OrderedValues:
    counts = np.ones(len(groups.values), np.int64)
    return OrderedValues(len(groups.which), groups.owners, groups.ordered().values, counts)


@final
@dataclass(frozen=True, eq=False)
class WindowLanes(LaneView):
    """Lanes that are computed when they are asked for, of groups that have values."""

    groups: ValueGroups
    text: str

    @property
    def kind(self) -> pa.DataType:
        """The type of the values."""
        return self.groups.values.type

    @property
    def count(self) -> Ints:
        """How many values a window has; never none."""
        return self.groups.counts

    @cached_property
    def _floats(self) -> Floats:
        return _to_floats(self.groups.values)

    @cached_property
    def _ordered(self) -> pa.Array:
        return self.groups.ordered().values

    @cached_property
    def _ordered_floats(self) -> Floats:
        return self._floats[np.lexsort((self._floats, self.groups.owners))]

    @cached_property
    def _odd_sums(self) -> Floats:
        """What NaN and infinities add up to, 0 without any."""
        odd = np.where(np.isfinite(self._floats), 0.0, self._floats)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.add.reduceat(odd, self.groups.starts))

    def rounded_total(self, divisor: Ints | None) -> Floats:
        """Exact sums, rounded once."""
        total = self.total()
        found = total.rounded() if divisor is None else quotients(total, [divisor])
        return np.where(self._odd_sums != 0, self._odd_sums, found)

    def limbs(self) -> list[Ints]:
        """Two of integers, four of decimals."""
        return self.groups.whole_totals()

    def total(self) -> Exact:
        """Sums without rounding."""
        if pa.types.is_floating(self.kind):
            return self.groups.exact_total(split(self._floats, SUMS), SUMS)
        return exact_of_limbs(self.limbs())

    def squares(self) -> Exact:
        """Sums of squares without rounding."""
        if pa.types.is_floating(self.kind):
            return self.groups.exact_total(split_squares(self._floats, SQUARES), SQUARES)
        digits = self.groups.whole_values().squared().to_digits()
        return self.groups.exact_total(digits, WHOLE_SQUARES)

    def is_odd(self) -> Mask:
        """Where a value is not finite."""
        if not pa.types.is_floating(self.kind):
            return np.zeros(len(self.count), np.bool_)
        return np.asarray(self._odd_sums != 0)

    def extreme(self, lane: ValueLane) -> pa.Array:
        """The smallest or largest value; NaN is larger than all numbers."""
        largest = lane is ValueLane.LARGEST
        numbers = as_numbers(self.groups.values)
        if numbers is None:
            last = self.count - 1 if largest else np.zeros_like(self.count)
            return self._ordered.take(pa.array(self.groups.starts + last))
        # Any NaN is a maximum, and a minimum where there is nothing else.
        found = (np.maximum if largest else np.fmin).reduceat(numbers, self.groups.starts)
        return pa.array(found).cast(self.kind)

    def at(self, statistic: Statistic) -> pa.Array:
        """The value at an index of each window; neighbours of a percentile as floats."""
        index = self.groups.starts + statistic.index(self.count)
        if statistic.rank is Rank.DISC:
            return self._ordered.take(pa.array(index))
        return pa.array(self._ordered_floats[index])


def _to_floats(values: pa.Array) -> Floats:
    numbers: Floats = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers
