"""AVG: the exact sum over the number of values, rounded once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from sqlglot import expressions as exp

from anabranch.aggregates.function import AggregateFunction, Parameters
from anabranch.aggregates.kinds import is_number, real_number, scale_of
from anabranch.aggregates.lanes import LaneView, ValueLane
from anabranch.aggregates.multiset import Weighted, exact_mean, not_finite, to_float
from anabranch.aggregates.sql import SqlForm
from anabranch.aggregates.weighing import Weighing
from anabranch.model.numbers.exact_numbers import quotients


def _meaning(values: Weighted, parameters: Parameters) -> Any:
    del parameters
    special = not_finite(values)
    return special if special is not None else to_float(exact_mean(values))


def _finish(view: LaneView, parameters: Parameters) -> pa.Array:
    del parameters
    divisor = np.maximum(view.count, 1)
    if pa.types.is_floating(view.kind):
        mean = view.rounded_total(divisor)
    else:
        mean = quotients(view.total(), [divisor], scale_of(view.kind))
    return pa.array(mean, mask=view.count == 0)


def _weighed(rows: Weighing) -> str:
    count, total = rows.count(), rows.total()
    return f"CAST({total} AS DOUBLE) / CAST({count} AS DOUBLE)"


FUNCTION: Final = AggregateFunction(
    name="avg",
    example="AVG(x)",
    forms=(SqlForm(exp.Avg),),
    takes=is_number,
    gives=real_number,
    distinct=True,
    meaning=_meaning,
    lanes=(ValueLane.TOTAL,),
    finish=_finish,
    weighed=_weighed,
)
