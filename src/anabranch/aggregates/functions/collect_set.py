"""COLLECT_SET: every different value once, as one array, in ascending order."""

from __future__ import annotations

from typing import Final

from sqlglot import expressions as exp

from anabranch.aggregates.collecting import collecting
from anabranch.aggregates.sql import SqlForm

FUNCTION: Final = collecting(
    "collect_set", form=SqlForm(exp.ArrayUniqueAgg), example="COLLECT_SET(x)", once=True
)
