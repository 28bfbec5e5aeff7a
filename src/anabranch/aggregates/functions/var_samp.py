"""VAR_SAMP: the variance of a sample, also VARIANCE."""

from __future__ import annotations

from typing import Final

from sqlglot import expressions as exp

from anabranch.aggregates.moments import moment
from anabranch.aggregates.sql import SqlForm

FUNCTION: Final = moment(
    "var_samp", "variance", forms=(SqlForm(exp.Variance),), sample=True, root=False
)
