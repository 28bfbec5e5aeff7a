"""PERCENTILE_DISC: the first value that at least a fraction of all values lies at or below."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from sqlglot import expressions as exp

from anabranch.aggregates.function import AggregateFunction, Parameters
from anabranch.aggregates.kinds import is_ordered, same_kind
from anabranch.aggregates.lanes import LaneView, Need, Rank, Statistic
from anabranch.aggregates.multiset import Weighted
from anabranch.aggregates.percentiles import percentile_disc_of, read_percentile
from anabranch.aggregates.sql import SqlForm


def _meaning(values: Weighted, parameters: Parameters) -> Any:
    assert parameters.fraction is not None
    return percentile_disc_of(values, parameters.fraction)


def _statistic(parameters: Parameters) -> Statistic:
    assert parameters.fraction is not None
    return Statistic(Rank.DISC, parameters.fraction)


def _lanes(parameters: Parameters) -> tuple[Need, ...]:
    return (_statistic(parameters),)


def _finish(view: LaneView, parameters: Parameters) -> pa.Array:
    return view.at(_statistic(parameters))


FUNCTION: Final = AggregateFunction(
    name="percentile_disc",
    example="PERCENTILE_DISC(x, 0.9)",
    forms=(SqlForm(exp.PercentileDisc, ("this", "expression"), within_group=True),),
    read=read_percentile,
    takes=is_ordered,
    gives=same_kind,
    parameters=("fraction",),
    meaning=_meaning,
    lanes=_lanes,
    finish=_finish,
)
