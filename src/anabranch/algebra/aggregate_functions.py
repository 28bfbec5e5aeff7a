"""What aggregates mean, over a multiset of values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal, final, get_args

import pyarrow as pa

from anabranch.errors import PlanError, StreamError
from anabranch.expressions.expression import Expression
from anabranch.model.identity import Identity

Function = Literal[
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "var_pop",
    "var_samp",
    "stddev_pop",
    "stddev_samp",
    "median",
    "percentile",
    "percentile_disc",
    "string_agg",
]
_FRACTIONS: Final = ("percentile", "percentile_disc")
_DISTINCT: Final = ("count", "sum", "avg", "string_agg")

Weighted = Sequence[tuple[Any, int]]
"""Values that are not null, each with its multiplicity; never empty."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCall:
    """One aggregate over the rows of a snapshot: `max(price)`; no argument is `count(*)`.

    NULLs do not count. Over nothing but NULLs `count` is 0 and all others are NULL.

    Attributes:
        function: What is computed.
        argument: One value per row; None stands for `*`.
        distinct: Equal values count once.
        fraction: Of a percentile, from 0 (the smallest value) to 1 (the largest).
        separator: Of `string_agg`, between two values.
    """

    identity: ClassVar[Identity] = Identity(
        "AggregateCall", ("function", "argument", "distinct", "fraction", "separator")
    )

    function: Function
    argument: Expression | None = None
    distinct: bool = False
    fraction: float | None = None
    separator: str | None = None

    def __post_init__(self) -> None:
        if self.function not in get_args(Function):
            raise PlanError(
                f"there is no aggregate '{self.function}'",
                hint=f"aggregates are: {', '.join(get_args(Function))}",
            )
        if self.argument is None and (self.function != "count" or self.distinct):
            raise PlanError(f"{self.label} needs an argument", hint="only count takes '*'")
        if self.distinct and self.function not in _DISTINCT:
            raise PlanError(
                f"DISTINCT does not go with {self.function}",
                where=self.label,
                hint=f"DISTINCT goes with {', '.join(_DISTINCT)}",
            )
        self._check_parameters()
        if self.argument is not None and not _fits(self.function, self.argument.type):
            raise PlanError(
                f"{self.function} does not work on values of type {self.argument.type}",
                where=self.label,
                hint=_CAST.get(self.function, "cast the argument, or choose another column"),
            )

    def _check_parameters(self) -> None:
        for name, value, users in (
            ("fraction", self.fraction, _FRACTIONS),
            ("separator", self.separator, ("string_agg",)),
        ):
            if (value is not None) != (self.function in users):
                needs = "needs a" if value is None else "takes no"
                raise PlanError(
                    f"{self.function} {needs} {name}",
                    where=self.label,
                    hint=f"a {name} belongs to {', '.join(users)}",
                )
        if self.fraction is not None and not 0 <= self.fraction <= 1:
            raise PlanError(
                f"there is no percentile at {self.fraction}",
                where=self.label,
                hint="a fraction lies between 0 (the smallest value) and 1 (the largest)",
            )

    @property
    def type(self) -> pa.DataType:
        """The type of the result."""
        if self.function == "count" or self.argument is None:
            return pa.int64()
        kind = self.argument.type
        if self.function in ("min", "max", "percentile_disc"):
            return kind
        if self.function == "string_agg":
            return pa.string()
        if self.function == "sum" and pa.types.is_decimal(kind):
            return pa.decimal128(38, kind.scale)
        if self.function == "sum" and pa.types.is_integer(kind):
            return pa.int64()
        return pa.float64()

    @property
    def label(self) -> str:
        """`count(DISTINCT bidderID)`."""
        argument = "*" if self.argument is None else self.argument.sql
        if self.fraction is not None:
            argument += f", {self.fraction}"
        if self.separator is not None:
            argument += f", {_quoted(self.separator)}"
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{argument})"

    def denote(self, values: Weighted) -> Any:
        """The aggregate of values with multiplicities, NULLs among them (`*`: any values)."""
        if self.argument is not None:
            values = [(value, count) for value, count in values if value is not None]
        if self.distinct:
            values = [(value, 1) for value in {value for value, _ in values}]
        if not values and self.function != "count":
            return None
        if self.function == "string_agg":
            assert self.separator is not None
            return self.separator.join(_in_order(values))
        if self.function == "median":
            return _percentile(values, 0.5)
        if self.fraction is not None:
            at = _percentile if self.function == "percentile" else _percentile_disc
            return at(values, self.fraction)
        return MEANINGS[self.function](values)


_NUMBERS: Final = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_ORDERED: Final = (
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_duration,
)
_STRINGS: Final = (pa.types.is_string, pa.types.is_large_string)
_CAST: Final[Mapping[str, str]] = {
    "string_agg": "string_agg(CAST(x AS STRING), ', ') takes any value that can be a text",
}


def _fits(function: Function, kind: pa.DataType) -> bool:
    if function == "count" or pa.types.is_null(kind):
        return True
    if function == "string_agg":
        fitting: tuple[Any, ...] = _STRINGS
    elif function in ("min", "max", "percentile_disc"):
        fitting = (*_NUMBERS, *_ORDERED)
    else:
        fitting = _NUMBERS
    return any(is_kind(kind) for is_kind in fitting)


def _quoted(text: str) -> str:
    """A text as Spark's SQL spells it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _count(values: Weighted) -> int:
    return sum(count for _, count in values)


def _sum(values: Weighted) -> Any:
    special = _not_finite(values)
    if special is not None:
        return special
    kind = type(values[0][0])
    total = sum(Fraction(value) * count for value, count in values)
    if kind is float:
        return _to_float(Fraction(total))
    if kind is Decimal:
        return _to_decimal(Fraction(total))
    if not -(2**63) <= total < 2**63:
        raise StreamError(
            "a sum does not fit into 64 bits",
            where=f"sum: {total}",
            hint="cast the argument to a decimal or to double",
        )
    return int(total)


def _avg(values: Weighted) -> float:
    special = _not_finite(values)
    return special if special is not None else _to_float(_mean(values))


def _min(values: Weighted) -> Any:
    return min((value for value, _ in values), key=_nan_last)


def _max(values: Weighted) -> Any:
    return max((value for value, _ in values), key=_nan_last)


def _in_order(values: Weighted) -> list[Any]:
    """All values, each as often as it holds, the smallest first."""
    ordered = sorted(values, key=lambda weighted: _nan_last(weighted[0]))
    return [value for value, count in ordered for _ in range(count)]


def _percentile(values: Weighted, fraction: float) -> float:
    """Spark's `percentile`: where no value lies at the fraction, between the two next to it."""
    ordered = [float(value) for value in _in_order(values)]
    position = (len(ordered) - 1) * fraction
    lower, higher = ordered[math.floor(position)], ordered[math.ceil(position)]
    if lower == higher or math.floor(position) == math.ceil(position):
        return lower
    return (math.ceil(position) - position) * lower + (position - math.floor(position)) * higher


def _percentile_disc(values: Weighted, fraction: float) -> Any:
    """Spark's `percentile_disc`: the first value that at least this fraction lies at or below."""
    ordered = _in_order(values)
    return ordered[max(math.ceil(len(ordered) * fraction) - 1, 0)]


def _var_pop(values: Weighted) -> float:
    if _not_finite(values) is not None:
        return math.nan
    return _to_float(_squares(values) / _count(values))


def _var_samp(values: Weighted) -> float | None:
    if _count(values) == 1:
        return None
    if _not_finite(values) is not None:
        return math.nan
    return _to_float(_squares(values) / (_count(values) - 1))


def _stddev_pop(values: Weighted) -> float:
    return math.sqrt(_var_pop(values))


def _stddev_samp(values: Weighted) -> float | None:
    variance = _var_samp(values)
    return None if variance is None else math.sqrt(variance)


def _mean(values: Weighted) -> Fraction:
    return Fraction(sum(Fraction(value) * count for value, count in values)) / _count(values)


def _squares(values: Weighted) -> Fraction:
    """The sum of squared distances from the mean, exactly."""
    mean = _mean(values)
    return Fraction(sum((Fraction(value) - mean) ** 2 * count for value, count in values))


def _not_finite(values: Weighted) -> float | None:
    """What NaN and infinities add up to, by the rules of IEEE 754; None without any."""
    odd = [value for value, _ in values if isinstance(value, float) and not math.isfinite(value)]
    if not odd:
        return None
    return odd[0] if all(value == odd[0] for value in odd) else math.nan


def _nan_last(value: Any) -> tuple[bool, Any]:
    is_nan = isinstance(value, float) and math.isnan(value)
    return (is_nan, 0 if is_nan else value)


def _to_float(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _to_decimal(exact: Fraction) -> Decimal:
    with localcontext() as context:
        context.prec = 100
        return Decimal(exact.numerator) / Decimal(exact.denominator)


MEANINGS: Final[Mapping[Function, Callable[[Weighted], Any]]] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _min,
    "max": _max,
    "var_pop": _var_pop,
    "var_samp": _var_samp,
    "stddev_pop": _stddev_pop,
    "stddev_samp": _stddev_samp,
}
