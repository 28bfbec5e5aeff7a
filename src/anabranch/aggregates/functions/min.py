"""MIN: the smallest value; NaN only where there is nothing else."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from sqlglot import expressions as exp

from anabranch.aggregates.function import AggregateFunction, Parameters
from anabranch.aggregates.kinds import is_ordered, same_kind
from anabranch.aggregates.lanes import LaneView, ValueLane
from anabranch.aggregates.multiset import Weighted, nan_last
from anabranch.aggregates.sql import SqlForm


def _meaning(values: Weighted, parameters: Parameters) -> Any:
    del parameters
    return min((value for value, _ in values), key=nan_last)


def _finish(view: LaneView, parameters: Parameters) -> pa.Array:
    del parameters
    return view.extreme(ValueLane.SMALLEST)


FUNCTION: Final = AggregateFunction(
    name="min",
    example="MIN(x)",
    forms=(SqlForm(exp.Min, refused=("expressions", "count")),),
    takes=is_ordered,
    gives=same_kind,
    ignores_duplicates=True,
    meaning=_meaning,
    lanes=(ValueLane.SMALLEST,),
    finish=_finish,
)
