"""Aggregates over rows that stand for many: sums of weights, and of products with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

import pyarrow as pa

from anabranch.expressions.expression import Expression
from anabranch.expressions.scalar_function import ScalarFunction

_WHOLE: Final = "DECIMAL(19, 0)"
_DECIMAL_WEIGHT: Final = "DECIMAL(14, 0)"
"""Exact products have 34 digits: 19 of a BIGINT, 14 of a weight (3 years of microseconds)."""

Summed = Callable[[str, tuple[ScalarFunction, ...]], str]
"""Gives the name of the column with the sum of an expression over the rows."""


@final
@dataclass(frozen=True, slots=True)
class Weighing:
    """Rows with a column of weights: a row stands for so many equal ones.

    Attributes:
        argument: What is aggregated; None stands for `*`.
        weight: The column of weights.
        summed: Has a sum computed.
    """

    argument: Expression | None
    weight: str
    summed: Summed

    @property
    def kind(self) -> pa.DataType:
        """The type of the argument."""
        return pa.null() if self.argument is None else self.argument.type

    def count(self) -> str:
        """How many rows have a value: `*` counts all of them."""
        if self.argument is None:
            return self.summed(self.weight, ())
        text = f"CASE WHEN ({self.argument.sql}) IS NOT NULL THEN {self.weight} END"
        return self.summed(text, self.argument.functions)

    def total(self) -> str:
        """The sum of the values, each as often as its row weighs."""
        assert self.argument is not None
        product = _product(f"({self.argument.sql})", self.kind, self.weight)
        return self.summed(product, self.argument.functions)


def _product(value: str, kind: pa.DataType, weight: str) -> str:
    if pa.types.is_floating(kind):
        return f"CAST({value} AS DOUBLE) * CAST({weight} AS DOUBLE)"
    exact = value if pa.types.is_decimal(kind) else f"CAST({value} AS {_WHOLE})"
    return f"{exact} * CAST({weight} AS {_DECIMAL_WEIGHT})"
