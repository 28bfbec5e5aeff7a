"""COUNT: how many rows, or how many values that are not NULL."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from sqlglot import expressions as exp

from anabranch.aggregates.function import AggregateFunction, Parameters
from anabranch.aggregates.kinds import any_kind, whole_count
from anabranch.aggregates.lanes import LaneView
from anabranch.aggregates.multiset import Weighted, how_many
from anabranch.aggregates.sql import SqlForm
from anabranch.aggregates.weighing import Weighing


def _meaning(values: Weighted, parameters: Parameters) -> Any:
    del parameters
    return how_many(values)


def _finish(view: LaneView, parameters: Parameters) -> pa.Array:
    del parameters
    return pa.array(view.count)


def _weighed(rows: Weighing) -> str:
    return rows.count() if rows.argument is None else f"COALESCE({rows.count()}, 0)"


FUNCTION: Final = AggregateFunction(
    name="count",
    example="COUNT(DISTINCT x)",
    forms=(SqlForm(exp.Count, refused=("expressions",)),),
    takes=any_kind,
    gives=whole_count,
    star=True,
    distinct=True,
    empty=0,
    meaning=_meaning,
    finish=_finish,
    weighed=_weighed,
)
