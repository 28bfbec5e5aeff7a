"""PERCENTILE: the value at a fraction of all values in order, or between two of them."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from sqlglot import expressions as exp

from anabranch.aggregates.function import AggregateFunction, Parameters
from anabranch.aggregates.kinds import is_number, real_number
from anabranch.aggregates.lanes import LaneView, Need
from anabranch.aggregates.multiset import Weighted
from anabranch.aggregates.percentiles import (
    between_neighbours,
    neighbours,
    percentile_of,
    read_percentile,
)
from anabranch.aggregates.sql import SqlForm


def _meaning(values: Weighted, parameters: Parameters) -> Any:
    assert parameters.fraction is not None
    return percentile_of(values, parameters.fraction)


def _lanes(parameters: Parameters) -> tuple[Need, ...]:
    assert parameters.fraction is not None
    return neighbours(parameters.fraction)


def _finish(view: LaneView, parameters: Parameters) -> pa.Array:
    assert parameters.fraction is not None
    return between_neighbours(view, parameters.fraction)


FUNCTION: Final = AggregateFunction(
    name="percentile",
    example="PERCENTILE(x, 0.9)",
    aliases=("percentile_cont",),
    forms=(
        SqlForm(exp.Quantile, ("this", "quantile")),
        SqlForm(exp.PercentileCont, ("this", "expression"), within_group=True),
    ),
    read=read_percentile,
    takes=is_number,
    gives=real_number,
    parameters=("fraction",),
    meaning=_meaning,
    lanes=_lanes,
    finish=_finish,
)
