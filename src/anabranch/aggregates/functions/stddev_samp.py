"""STDDEV_SAMP: the square root of VAR_SAMP, also STDDEV."""

from __future__ import annotations

from typing import Final

from sqlglot import expressions as exp

from anabranch.aggregates.moments import moment
from anabranch.aggregates.sql import SqlForm

FUNCTION: Final = moment(
    *("stddev_samp", "stddev"),
    forms=(SqlForm(exp.Stddev), SqlForm(exp.StddevSamp)),
    sample=True,
    root=True,
)
