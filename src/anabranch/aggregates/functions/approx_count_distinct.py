"""APPROX_COUNT_DISTINCT: the number of different values, exact: within every allowed deviation.

Spark counts with a sketch (HyperLogLog++). A sketch can only grow: a value that is withdrawn, or
whose lifetime ends, cannot be taken out of it again, so that a count over time would be too large
for good. The lanes of distinct values can, and COUNT(DISTINCT x) keeps these anyway. So the count
is that of COUNT(DISTINCT x), with an error of 0, and `relative_sd` is the bound that it says it is.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from sqlglot import expressions as exp

from anabranch.aggregates.function import AggregateFunction, Parameters
from anabranch.aggregates.kinds import any_kind, whole_count
from anabranch.aggregates.lanes import LaneView
from anabranch.aggregates.multiset import Weighted, how_many
from anabranch.aggregates.sql import SqlCall, SqlForm, SqlReading


def _read(call: SqlCall) -> SqlReading:
    """`APPROX_COUNT_DISTINCT(x)`, `APPROX_COUNT_DISTINCT(x, 0.01)`."""
    call = replace(call, hint="write APPROX_COUNT_DISTINCT(x), or APPROX_COUNT_DISTINCT(x, 0.05)")
    argument, _ = call.without_distinct(call.tree.this)
    given = call.tree.args.get("accuracy")
    if given is not None:
        deviation = call.constant(given, "the deviation of APPROX_COUNT_DISTINCT")
        if isinstance(deviation, bool) or not isinstance(deviation, int | float | Decimal):
            raise call.wrong(f"{given.sql(dialect='spark')} is not a relative deviation")
        if not 0 < deviation < 1:
            raise call.wrong(f"a relative deviation lies between 0 and 1, {deviation} does not")
    return SqlReading(call.bind(argument))


def _meaning(values: Weighted, parameters: Parameters) -> Any:
    del parameters
    return how_many(values)


def _finish(view: LaneView, parameters: Parameters) -> pa.Array:
    del parameters
    return pa.array(view.count)


FUNCTION: Final = AggregateFunction(
    name="approx_count_distinct",
    example="APPROX_COUNT_DISTINCT(x)",
    forms=(SqlForm(exp.ApproxDistinct, checked=("accuracy",)),),
    read=_read,
    takes=any_kind,
    gives=whole_count,
    counts_once=True,
    empty=0,
    meaning=_meaning,
    finish=_finish,
)
