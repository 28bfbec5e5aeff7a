"""SUM: exact, rounded once where the result is a float."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from sqlglot import expressions as exp

from anabranch.aggregates.function import AggregateFunction, Parameters
from anabranch.aggregates.kinds import is_number
from anabranch.aggregates.lanes import LaneView, ValueLane
from anabranch.aggregates.multiset import Weighted, exact_sum, not_finite, to_decimal, to_float
from anabranch.aggregates.sql import SqlForm
from anabranch.aggregates.weighing import Weighing
from anabranch.aggregates.whole_sums import sum_of_limbs
from anabranch.errors import StreamError


def _gives(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    return pa.int64() if pa.types.is_integer(kind) else pa.float64()


def _meaning(values: Weighted, parameters: Parameters) -> Any:
    del parameters
    special = not_finite(values)
    if special is not None:
        return special
    kind, total = type(values[0][0]), exact_sum(values)
    if kind is float:
        return to_float(total)
    if kind is Decimal:
        return to_decimal(total)
    if not -(2**63) <= total < 2**63:
        raise StreamError(
            "a sum does not fit into 64 bits",
            where=f"sum: {total}",
            hint="cast the argument to a decimal or to double",
        )
    return int(total)


def _finish(view: LaneView, parameters: Parameters) -> pa.Array:
    del parameters
    none = view.count == 0
    if pa.types.is_floating(view.kind):
        return pa.array(view.rounded_total(None), mask=none)
    return sum_of_limbs(view.limbs(), none, view.text, _gives(view.kind))


def _weighed(rows: Weighing) -> str:
    rows.count()  # Not needed for the result; stored queries keep this sum.
    total = rows.total()
    return f"CAST({total} AS BIGINT)" if pa.types.is_integer(rows.kind) else total


FUNCTION: Final = AggregateFunction(
    name="sum",
    example="SUM(x)",
    forms=(SqlForm(exp.Sum),),
    takes=is_number,
    gives=_gives,
    distinct=True,
    may_overflow=lambda kind: not pa.types.is_floating(_gives(kind)),
    meaning=_meaning,
    lanes=(ValueLane.TOTAL,),
    finish=_finish,
    weighed=_weighed,
)
