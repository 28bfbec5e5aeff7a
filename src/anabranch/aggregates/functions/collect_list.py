"""COLLECT_LIST: all values as one array, in ascending order; also ARRAY_AGG."""

from __future__ import annotations

from typing import Final

from sqlglot import expressions as exp

from anabranch.aggregates.collecting import collecting
from anabranch.aggregates.sql import SqlForm

FUNCTION: Final = collecting(
    "collect_list",
    "array_agg",
    form=SqlForm(exp.ArrayAgg, checked=("nulls_excluded",)),
    example="COLLECT_LIST(x)",
    once=False,
)
