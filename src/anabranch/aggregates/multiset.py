"""Values with multiplicities: what the meanings of aggregate functions are written over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

Weighted = Sequence[tuple[Any, int]]
"""Values that are not null, each with its multiplicity; never empty."""


def how_many(values: Weighted) -> int:
    """The number of values."""
    return sum(count for _, count in values)


def in_order(values: Weighted) -> list[Any]:
    """All values, each as often as it holds, the smallest first."""
    ordered = sorted(values, key=lambda weighted: nan_last(weighted[0]))
    return [value for value, count in ordered for _ in range(count)]


def nan_last(value: Any) -> tuple[bool, Any]:
    """A sort key: NaN is larger than all numbers."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return (is_nan, 0 if is_nan else value)


def field_by_field(value: Any) -> tuple[Any, ...]:
    """A sort key for structs, too: NULL comes first, NaN last."""
    if value is None:
        return (0,)
    if isinstance(value, tuple):
        return (1, *(field_by_field(part) for part in value))
    return (1, *nan_last(value))


def exact_sum(values: Weighted) -> Fraction:
    """The sum of finite numbers, without rounding."""
    return Fraction(sum(Fraction(value) * count for value, count in values))


def exact_mean(values: Weighted) -> Fraction:
    """The mean of finite numbers, without rounding."""
    return exact_sum(values) / how_many(values)


def not_finite(values: Weighted) -> float | None:
    """What NaN and infinities add up to, by the rules of IEEE 754; None without any."""
    odd = [value for value, _ in values if isinstance(value, float) and not math.isfinite(value)]
    if not odd:
        return None
    return odd[0] if all(value == odd[0] for value in odd) else math.nan


def to_float(exact: Fraction) -> float:
    """The nearest float, or an infinity."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def to_decimal(exact: Fraction) -> Decimal:
    """The same number as a decimal."""
    with localcontext() as context:
        context.prec = 100
        return Decimal(exact.numerator) / Decimal(exact.denominator)
