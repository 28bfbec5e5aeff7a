"""All modules that are shipped."""

from __future__ import annotations

from typing import Any, Final

from anabranch.algebra.modules.user_operator import Template
from anabranch.userops.shipped.best import BestIncremental, best
from anabranch.userops.shipped.distinct_sketch import DistinctSketch, distinct_sketch_plain
from anabranch.userops.shipped.followed_by import followed_by
from anabranch.userops.shipped.mean import Mean, mean_arrow, mean_plain
from anabranch.userops.shipped.quantile import Quantile, QuantileArrow, QuantileIncremental
from anabranch.userops.shipped.time_weighted_mean import TimeWeightedMean, time_weighted_mean
from anabranch.userops.shipped.trend import Trend, trend_plain

# A type checker does not see what a decorator makes of a class.
_EVERY: Final[tuple[Any, ...]] = (
    best,
    BestIncremental,
    distinct_sketch_plain,
    DistinctSketch,
    followed_by,
    Mean,
    mean_arrow,
    mean_plain,
    Quantile,
    QuantileArrow,
    QuantileIncremental,
    time_weighted_mean,
    TimeWeightedMean,
    Trend,
    trend_plain,
)

SHIPPED: Final[tuple[Template, ...]] = _EVERY
