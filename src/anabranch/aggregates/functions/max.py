"""MAX: the largest value; NaN is larger than all numbers."""

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
    return max((value for value, _ in values), key=nan_last)


def _finish(view: LaneView, parameters: Parameters) -> pa.Array:
    del parameters
    return view.extreme(ValueLane.LARGEST)


FUNCTION: Final = AggregateFunction(
    name="max",
    example="MAX(x)",
    forms=(SqlForm(exp.Max, refused=("expressions", "count")),),
    takes=is_ordered,
    gives=same_kind,
    ignores_duplicates=True,
    meaning=_meaning,
    lanes=(ValueLane.LARGEST,),
    finish=_finish,
)
