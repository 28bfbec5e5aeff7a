"""Aggregates as lanes of a timeline: what each row weighs, and what the weights amount to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.aggregate import Aggregate
from anabranch.algebra.aggregate_functions import AggregateCall
from anabranch.algebra.expression import Expression
from anabranch.errors import StreamError
from anabranch.kernels.columns import Double, Floats, Ints, Mask, add_doubles, multiply_exactly
from anabranch.kernels.timeline import Lanes
from anabranch.kernels.timeline_rows import COUNT

_LOW: Final = np.int64(2**32 - 1)
_MOMENTS: Final = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")


@final
@dataclass(frozen=True, slots=True)
class Measure:
    """What the timeline keeps of one argument.

    Whole sums are kept in limbs of 32 bits, so that they are exact and an overflow is noticed;
    floats as doubled numbers, with NaN and the infinities counted apart, so that they can leave
    again.
    """

    place: int
    argument: Expression
    sums: bool
    moments: bool
    smallest: bool
    largest: bool
    distinct: bool

    @property
    def _floating(self) -> bool:
        return bool(pa.types.is_floating(self.argument.type)) or self.moments

    def whole(self) -> tuple[str, ...]:
        """Names of its whole lanes."""
        names: tuple[str, ...] = (f"count{self.place}",)
        if self.sums and not pa.types.is_floating(self.argument.type):
            names += tuple(f"sum{self.place}.{limb}" for limb in range(_limbs(self.argument.type)))
        if (self.sums or self.moments) and self._floating:
            names += (f"nan{self.place}", f"plus{self.place}", f"minus{self.place}")
        if self.distinct:
            names += (f"distinct{self.place}",)
        return names

    def doubled(self) -> tuple[str, ...]:
        """Names of its doubled lanes."""
        names: tuple[str, ...] = ()
        if self.moments or (self.sums and self._floating):
            names += (f"total{self.place}",)
        if self.moments:
            names += (f"square{self.place}",)
        return names

    def values(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Names and types of its value lanes."""
        names = [f"min{self.place}"] * self.smallest + [f"max{self.place}"] * self.largest
        return tuple((name, self.argument.type) for name in names)

    def weigh(self, values: pa.Array) -> dict[str, np.ndarray]:
        """What each row adds to the additive lanes; floats undoubled under the lane's own name."""
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        weights: dict[str, np.ndarray] = {f"count{self.place}": valid.astype(np.int64)}
        if self.sums and not pa.types.is_floating(self.argument.type):
            for limb, part in enumerate(_split(values, self.argument.type)):
                weights[f"sum{self.place}.{limb}"] = np.where(valid, part, 0)
        if (self.sums or self.moments) and self._floating:
            numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
            finite = np.isfinite(numbers)
            weights[f"nan{self.place}"] = np.isnan(numbers).astype(np.int64)
            weights[f"plus{self.place}"] = (numbers == np.inf).astype(np.int64)
            weights[f"minus{self.place}"] = (numbers == -np.inf).astype(np.int64)
            weights[f"total{self.place}"] = np.where(finite, numbers, 0.0)
        if self.distinct:
            weights[f"distinct{self.place}"] = np.zeros(len(values), np.int64)
        return weights


def _limbs(kind: pa.DataType) -> int:
    if pa.types.is_decimal(kind):
        return 3
    return 2 if kind.bit_width > 32 else 1


def _split(values: pa.Array, kind: pa.DataType) -> list[Ints]:
    """Whole values as limbs, most significant first."""
    if pa.types.is_decimal(kind):
        wide = values.cast(pa.decimal128(38, kind.scale))
        words = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset :][: 2 * len(wide)]
        low, high = words[0::2], words[1::2]
        return [high, (low >> 32) & _LOW, low & _LOW]
    whole = values.cast(pa.int64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False)
    return [whole >> 32, whole & _LOW] if _limbs(kind) == 2 else [whole]


@final
@dataclass(frozen=True, slots=True)
class Measures:
    """All that one aggregation keeps."""

    calls: tuple[AggregateCall, ...]
    types: tuple[pa.DataType, ...]
    arguments: tuple[Measure, ...]

    @staticmethod
    def of(node: Aggregate) -> Measures:
        """Share what several aggregates need of one argument."""
        calls = tuple(call for _, call in node.aggregates)
        found: dict[str, Expression] = {}
        for call in calls:
            if call.argument is not None:
                found.setdefault(call.argument.sql, call.argument)
        measures = []
        for place, (text, argument) in enumerate(found.items()):
            uses = {
                ("distinct" if call.distinct else call.function)
                for call in calls
                if call.argument is not None and call.argument.sql == text
            }
            measures.append(
                Measure(
                    place=place,
                    argument=argument,
                    sums=bool(uses & {"sum", "avg"}),
                    moments=bool(uses & set(_MOMENTS)),
                    smallest="min" in uses,
                    largest="max" in uses,
                    distinct="distinct" in uses,
                )
            )
        types = tuple(node.schema.field(name).type for name, _ in node.aggregates)
        return Measures(calls, types, tuple(measures))

    @property
    def counting(self) -> bool:
        """Whether anything but extremes is asked for; else rows need not be counted."""
        return any(call.function not in ("min", "max") for call in self.calls)

    @property
    def extremes(self) -> tuple[Measure, ...]:
        """Arguments whose smallest or largest value is wanted."""
        return tuple(measure for measure in self.arguments if measure.smallest or measure.largest)

    def lanes(self, checked: bool) -> Lanes:
        """The columns of the timeline."""
        values = tuple(lane for measure in self.arguments for lane in measure.values())
        if not self.counting:
            return Lanes(values=values, checked=checked)
        whole = tuple(lane for measure in self.arguments for lane in measure.whole())
        doubled = tuple(lane for measure in self.arguments for lane in measure.doubled())
        return Lanes((COUNT, *whole), doubled, values, checked)

    def finish(
        self,
        whole: Mapping[str, Ints],
        doubled: Mapping[str, Double],
        values: Mapping[str, pa.Array],
    ) -> list[pa.Array]:
        """The results, one array per aggregate."""
        results = []
        by_text = {measure.argument.sql: measure for measure in self.arguments}
        for call, kind in zip(self.calls, self.types, strict=True):
            if call.argument is None:
                results.append(pa.array(whole[COUNT]))
                continue
            place = by_text[call.argument.sql].place
            if call.distinct:
                results.append(pa.array(whole[f"distinct{place}"]))
            elif call.function in ("min", "max"):
                results.append(values[f"{call.function}{place}"])
            else:
                results.append(_additive(call, kind, place, whole, doubled))
        return results


def _additive(
    call: AggregateCall,
    kind: pa.DataType,
    place: int,
    whole: Mapping[str, Ints],
    doubled: Mapping[str, Double],
) -> pa.Array:
    assert call.argument is not None
    count = whole[f"count{place}"]
    if call.function == "count":
        return pa.array(count)
    none = count == 0
    if call.function in _MOMENTS:
        return _moment(call.function, place, whole, doubled)
    if pa.types.is_floating(call.argument.type):
        high, low = doubled[f"total{place}"]
        total = _with_specials(high + low, place, whole)
        number = total if call.function == "sum" else total / np.where(none, 1, count)
        return pa.array(number, mask=none)
    limbs = [whole[f"sum{place}.{limb}"] for limb in range(_limbs(call.argument.type))]
    if call.function == "sum":
        return _whole_sum(limbs, none, call.argument, kind)
    total = np.zeros(len(count))
    for limb, power in zip(limbs, _powers(len(limbs)), strict=True):
        total = total + limb.astype(np.float64) * power
    if len(limbs) == 2:
        exact = (limbs[0] << 32) + limbs[1]
        small = np.abs(limbs[0]) < 2**30
        total = np.where(small, exact.astype(np.float64), total)
    if pa.types.is_decimal(call.argument.type):
        total = total / 10.0**call.argument.type.scale
    return pa.array(total / np.where(none, 1, count), mask=none)


def _powers(limbs: int) -> list[float]:
    return {1: [1.0], 2: [2.0**32, 1.0], 3: [2.0**64, 2.0**32, 1.0]}[limbs]


def _whole_sum(
    limbs: Sequence[Ints], none: Mask, argument: Expression, kind: pa.DataType
) -> pa.Array:
    if len(limbs) == 1:
        return pa.array(limbs[0], mask=none)
    if len(limbs) == 2:
        top = limbs[0] + (limbs[1] >> 32)
        if ((top > 2**31 - 1) | (top < -(2**31))).any():
            raise _overflow(argument, "BIGINT", f"SUM(CAST({argument.sql} AS DECIMAL(38, 0)))")
        return pa.array((top << 32) | (limbs[1] & _LOW), mask=none)
    middle = limbs[1] + (limbs[2] >> 32)
    low = (limbs[2] & _LOW) | ((middle & _LOW) << 32)
    high = limbs[0] + (middle >> 32)
    # 10^38 lies between 2^126 and 2^127: the top word says when 38 digits are not enough.
    if (np.abs(high.astype(np.float64)) >= 1e38 / 2.0**64).any():
        raise _overflow(argument, "DECIMAL(38)", f"SUM(CAST({argument.sql} AS DOUBLE))")
    words = np.empty(2 * len(low), np.int64)
    words[0::2], words[1::2] = low, high
    valid = pa.array(~none)
    return pa.Array.from_buffers(kind, len(low), [valid.buffers()[1], pa.py_buffer(words)])


def _overflow(argument: Expression, kind: str, instead: str) -> StreamError:
    return StreamError(
        f"a sum does not fit into {kind}", where=f"SUM({argument.sql})", hint=f"use {instead}"
    )


def _with_specials(total: Floats, place: int, whole: Mapping[str, Ints]) -> Floats:
    nan, plus, minus = (whole[f"{name}{place}"] > 0 for name in ("nan", "plus", "minus"))
    total = np.where(plus, np.inf, np.where(minus, -np.inf, total))
    return np.where(nan | (plus & minus), np.nan, total)


def _moment(
    function: str, place: int, whole: Mapping[str, Ints], doubled: Mapping[str, Double]
) -> pa.Array:
    """Variance from the power sums, without losing digits: (n * squares - total^2) / n."""
    count = whole[f"count{place}"].astype(np.float64)
    total, square = doubled[f"total{place}"], doubled[f"square{place}"]
    scaled = multiply_exactly(square[0], count)
    scaled = add_doubles(scaled, (square[1] * count, np.zeros(len(count))))
    squared = multiply_exactly(total[0], total[0])
    squared = add_doubles(squared, (2 * total[0] * total[1], np.zeros(len(count))))
    rest = add_doubles(scaled, (-squared[0], -squared[1]))
    safe = np.where(count == 0, 1, count)
    spread = np.maximum(rest[0] + rest[1], 0.0) / safe
    few = count < (2 if function.endswith("samp") else 1)
    divisor = np.where(few, 1, count - 1 if function.endswith("samp") else count)
    variance = spread / divisor
    number = np.sqrt(variance) if function.startswith("stddev") else variance
    special = (whole[f"nan{place}"] + whole[f"plus{place}"] + whole[f"minus{place}"]) > 0
    return pa.array(np.where(special, np.nan, number), mask=few)
