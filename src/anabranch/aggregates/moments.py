"""Variances and standard deviations: exact sums, one rounding."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.aggregates.function import AggregateFunction, Parameters
from anabranch.aggregates.kinds import is_number, real_number, scale_of
from anabranch.aggregates.lanes import LaneView, ValueLane
from anabranch.aggregates.multiset import Weighted, exact_mean, how_many, not_finite, to_float
from anabranch.aggregates.sql import SqlForm
from anabranch.model.numbers.exact_numbers import quotients


def moment(
    name: str, *aliases: str, forms: tuple[SqlForm, ...], sample: bool, root: bool
) -> AggregateFunction:
    """A variance, or its square root; of a sample, n - 1 is divided by."""

    def meaning(values: Weighted, parameters: Parameters) -> Any:
        del parameters
        variance = _variance(values, sample=sample)
        return variance if variance is None or not root else math.sqrt(variance)

    def finish(view: LaneView, parameters: Parameters) -> pa.Array:
        del parameters
        return _moments(view, sample=sample, root=root)

    return AggregateFunction(
        name=name,
        example=f"{name.upper()}(x)",
        aliases=aliases,
        forms=forms,
        takes=is_number,
        gives=real_number,
        meaning=meaning,
        lanes=(ValueLane.TOTAL, ValueLane.SQUARES),
        finish=finish,
    )


def _variance(values: Weighted, *, sample: bool) -> float | None:
    count = how_many(values)
    if sample and count == 1:
        return None
    if not_finite(values) is not None:
        return math.nan
    mean = exact_mean(values)
    squares = Fraction(sum((Fraction(value) - mean) ** 2 * n for value, n in values))
    return to_float(squares / (count - 1 if sample else count))


def _moments(view: LaneView, *, sample: bool, root: bool) -> pa.Array:
    """(n * squares - total^2) / (n * n), or over n * (n - 1): one quotient, rounded once."""
    few = view.count < (2 if sample else 1)
    count = np.where(few, 2, view.count)
    spread = view.squares().times(count).minus(view.total().squared())
    divisors = [count, count - 1 if sample else count]
    number = quotients(spread, divisors, 2 * scale_of(view.kind))
    number = np.sqrt(number) if root else number
    return pa.array(np.where(view.is_odd(), np.nan, number), mask=few)
