"""The lanes of one argument in a timeline, as aggregate functions read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.aggregates.lanes import LaneView, Statistic, ValueLane
from anabranch.aggregates.whole_sums import exact_of_limbs
from anabranch.kernels.aggregate.argument_lanes import AdditiveLanes, ExtremeLane, StatisticLane
from anabranch.kernels.columns.codes import float_of, has_code, value_of
from anabranch.kernels.columns.grouped import Floats, Ints, Mask
from anabranch.model.numbers.digits import MINUS, NAN, PLUS
from anabranch.model.numbers.exact_numbers import Exact


@final
@dataclass(frozen=True, slots=True, eq=False)
class TimelineLanes(LaneView):
    """Lanes at positions of a timeline.

    Attributes:
        additive: Where counts and sums are: of all values, or of distinct ones.
        text: The argument, for errors.
        argument: Its number.
        ranked: The type of the values that are put in order.
        whole: The additive lanes.
        values: The value lanes.
    """

    additive: AdditiveLanes
    text: str
    argument: int
    ranked: pa.DataType
    whole: Mapping[str, Ints]
    values: Mapping[str, pa.Array]

    @property
    def kind(self) -> pa.DataType:
        """The type of the argument."""
        return self.additive.kind

    @property
    def count(self) -> Ints:
        """How many values there are."""
        return self.whole[self.additive.count]

    def rounded_total(self, divisor: Ints | None) -> Floats:
        """Sums of floats, or what they are over a count; NaN and infinities count."""
        lane, whole = self.additive.total, self.whole
        total = lane.rounded(whole, divisor)
        nan, plus, minus = (lane.odd(whole, slot) for slot in (NAN, PLUS, MINUS))
        if plus is not None:
            total = np.where(plus > 0, np.inf, total)
        if minus is not None:
            total = np.where(minus > 0, np.where(total == np.inf, total, -np.inf), total)
        if plus is not None and minus is not None:
            total = np.where((plus > 0) & (minus > 0), np.nan, total)
        return total if nan is None else np.where(nan > 0, np.nan, total)

    def limbs(self) -> list[Ints]:
        """The sum of whole numbers, as it is kept."""
        return [self.whole[name] for name in self.additive.limbs]

    def total(self) -> Exact:
        """The sum without rounding."""
        if self.additive.is_floating:
            return self.additive.total.exact(self.whole)
        return exact_of_limbs(self.limbs())

    def squares(self) -> Exact:
        """The sum of squares without rounding."""
        return self.additive.squares.exact(self.whole)

    def is_odd(self) -> Mask:
        """Where a value is not finite."""
        special = np.zeros(len(self.count), np.bool_)
        if self.additive.is_floating:
            for slot in (NAN, PLUS, MINUS):
                odd = self.additive.total.odd(self.whole, slot)
                special |= False if odd is None else odd > 0
        return special

    def extreme(self, lane: ValueLane) -> pa.Array:
        """The smallest or largest value."""
        return self.values[ExtremeLane(self.argument, lane, self.kind).name]

    def at(self, statistic: Statistic) -> pa.Array:
        """The value at an index, out of its code where there is one."""
        if not has_code(self.ranked):
            return self._lane(statistic)
        return value_of(self._codes(statistic), self.count == 0, self.ranked)

    def number_at(self, statistic: Statistic) -> Floats:
        """The value at an index as a float, 0 where there is no value."""
        if not pa.types.is_floating(self.ranked):
            return LaneView.number_at(self, statistic)  # slots know no `super()`
        return np.where(self.count == 0, 0.0, float_of(self._codes(statistic)))

    def _lane(self, statistic: Statistic) -> pa.Array:
        return self.values[StatisticLane(self.argument, statistic, self.ranked).name]

    def _codes(self, statistic: Statistic) -> Ints:
        lane = self._lane(statistic)
        if lane.null_count:  # as it was written before it had numbers everywhere
            lane = lane.fill_null(0)
        codes: Ints = lane.to_numpy(zero_copy_only=False)
        return codes
