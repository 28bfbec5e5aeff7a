"""Percentiles out of the values at one or two places of what is alive, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.aggregate_functions import AggregateCall
from anabranch.kernels.columns.codes import has_code, value_of
from anabranch.kernels.columns.grouped import Floats, Ints


@final
@dataclass(frozen=True, slots=True)
class Statistic:
    """The value at a place that follows from how many there are.

    `low` and `high` are the neighbours that `percentile` lies between (one and the same where a
    value lies just there), `disc` is the value of `percentile_disc`.
    """

    kind: Literal["low", "high", "disc"]
    fraction: float

    def index(self, count: Ints) -> Ints:
        """The place among so many values, from 0 on, in the arithmetic of Spark."""
        if self.kind == "disc":
            place = np.ceil(count * self.fraction) - 1
        else:
            exact = (count - 1) * self.fraction
            place = np.floor(exact) if self.kind == "low" else np.ceil(exact)
        return np.asarray(np.maximum(place, 0), np.int64)

    def lane(self, place: int) -> str:
        """The lane that holds it, for one argument."""
        return f"{self.kind}{place}.{self.fraction}"


def statistics_of(call: AggregateCall) -> tuple[Statistic, ...]:
    """What a percentile is made of; nothing for other aggregates."""
    if call.function == "percentile_disc":
        assert call.fraction is not None
        return (Statistic("disc", call.fraction),)
    if call.function in ("median", "percentile"):
        fraction = 0.5 if call.fraction is None else call.fraction
        return Statistic("low", fraction), Statistic("high", fraction)
    return ()


def percentile(
    call: AggregateCall,
    place: int,
    ranked: pa.DataType,
    count: Ints,
    values: Mapping[str, pa.Array],
) -> pa.Array:
    """The percentile of each row, null where there is no value."""
    found = [_decoded(values[part.lane(place)], ranked) for part in statistics_of(call)]
    if call.function == "percentile_disc":
        return found[0]
    missing = found[0].is_null().to_numpy(zero_copy_only=False)
    low, high = (_floats(part) for part in found)
    position = np.where(missing, 0.0, (count - 1) * statistics_of(call)[0].fraction)
    between = low != high
    below = np.where(between, np.ceil(position) - position, 0.0)
    above = np.where(between, position - np.floor(position), 0.0)
    exact = ~between | (below + above == 0)
    with np.errstate(invalid="ignore"):
        mixed = below * low + above * high
    return pa.array(np.where(exact, low, mixed), mask=missing)


def _decoded(lane: pa.Array, ranked: pa.DataType) -> pa.Array:
    if not has_code(ranked):
        return lane
    missing = lane.is_null().to_numpy(zero_copy_only=False)
    codes = lane.fill_null(0).to_numpy(zero_copy_only=False)
    return value_of(codes, missing, ranked)


def _floats(values: pa.Array) -> Floats:
    numbers = values.cast(pa.float64(), safe=False).fill_null(0.0)
    floats: Floats = numbers.to_numpy(zero_copy_only=False)
    return floats
