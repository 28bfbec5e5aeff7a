"""MAX_BY: the value of the row in which a second expression is largest."""

from __future__ import annotations

from typing import Final

from sqlglot import expressions as exp

from anabranch.aggregates.by_extreme import by_extreme

FUNCTION: Final = by_extreme("max_by", exp.ArgMax, largest=True)
