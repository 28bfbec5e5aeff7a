"""STDDEV_POP: the square root of VAR_POP."""

from __future__ import annotations

from typing import Final

from sqlglot import expressions as exp

from anabranch.aggregates.moments import moment
from anabranch.aggregates.sql import SqlForm

FUNCTION: Final = moment("stddev_pop", forms=(SqlForm(exp.StddevPop),), sample=False, root=True)
