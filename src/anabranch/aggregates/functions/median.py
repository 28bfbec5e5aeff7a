"""MEDIAN: the percentile at one half."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from sqlglot import expressions as exp

from anabranch.aggregates.function import AggregateFunction, Parameters
from anabranch.aggregates.kinds import is_number, real_number
from anabranch.aggregates.lanes import LaneView
from anabranch.aggregates.multiset import Weighted
from anabranch.aggregates.percentiles import between_neighbours, neighbours, percentile_of
from anabranch.aggregates.sql import SqlForm

_HALF: Final = 0.5


def _meaning(values: Weighted, parameters: Parameters) -> Any:
    del parameters
    return percentile_of(values, _HALF)


def _finish(view: LaneView, parameters: Parameters) -> pa.Array:
    del parameters
    return between_neighbours(view, _HALF)


FUNCTION: Final = AggregateFunction(
    name="median",
    example="MEDIAN(x)",
    forms=(SqlForm(exp.Median),),
    takes=is_number,
    gives=real_number,
    meaning=_meaning,
    lanes=neighbours(_HALF),
    finish=_finish,
)
