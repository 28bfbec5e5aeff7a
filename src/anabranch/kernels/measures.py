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
from anabranch.kernels.codes import has_code
from anabranch.kernels.columns import Double, Floats, Ints, Mask, add_doubles, multiply_exactly
from anabranch.kernels.statistics import Statistic, percentile, statistics_of
from anabranch.kernels.timeline import Lanes
from anabranch.kernels.timeline_rows import COUNT
from anabranch.model.hashing import stable_hash

_LOW: Final = np.int64(2**32 - 1)
_MOMENTS: Final = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")


@final
@dataclass(frozen=True, slots=True)
class Measure:
    """What the timeline keeps of one argument.

    Whole sums are kept in limbs of 32 bits, so that they are exact and an overflow is noticed;
    floats as doubled numbers, with NaN and the infinities counted apart, so that they can leave
    again. Sums over distinct values have lanes of their own, under the place with a `d`.

    Where all values matter, the lane `mix` adds up their hashes: it differs where the values do,
    so the timeline has a row wherever a value comes or goes, even where nothing else changes.
    """

    place: int
    argument: Expression
    sums: bool
    moments: bool
    smallest: bool
    largest: bool
    distinct: bool
    distinct_sums: bool
    texts: bool
    statistics: tuple[Statistic, ...]

    @property
    def holistic(self) -> bool:
        """Whether all values are kept, in order."""
        return self.texts or bool(self.statistics)

    @property
    def needs_values(self) -> bool:
        """Whether weights are not enough."""
        return self.smallest or self.largest or self.distinct or self.holistic

    @property
    def ranked(self) -> pa.DataType:
        """The type of the values that are put in order."""
        kind = self.argument.type
        exact = self.texts or any(part.kind == "disc" for part in self.statistics)
        return kind if exact or has_code(kind) else pa.float64()

    def statistic_lanes(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Names and types of the lanes of its order statistics."""
        if not has_code(self.ranked):
            return tuple((part.lane(self.place), self.ranked) for part in self.statistics)
        names = [part.lane(self.place) for part in self.statistics]
        parts = ("", ".below", ".upto")
        return tuple((f"{name}{part}", pa.int64()) for name in names for part in parts)

    def extreme_lanes(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Names and types of the lanes of its extremes."""
        names = [f"min{self.place}"] * self.smallest + [f"max{self.place}"] * self.largest
        return tuple((name, self.argument.type) for name in names)

    def whole(self) -> tuple[str, ...]:
        """Names of its whole lanes."""
        names = (f"count{self.place}", *_sum_lanes(self.argument, self.place, self.sums))
        if self.moments:
            names += tuple(name for name in _odd_lanes(self.place) if name not in names)
        if self.holistic:
            names += (f"mix{self.place}",)
        return names + self.distinct_whole()

    def distinct_whole(self) -> tuple[str, ...]:
        """Names of the whole lanes that only follow from which values there are."""
        if not self.distinct:
            return ()
        place = f"{self.place}d"
        return (f"count{place}", *_sum_lanes(self.argument, place, self.distinct_sums))

    def doubled(self) -> tuple[str, ...]:
        """Names of its doubled lanes."""
        floating = bool(pa.types.is_floating(self.argument.type))
        names: tuple[str, ...] = ()
        if self.moments or (self.sums and floating):
            names += (f"total{self.place}",)
        if self.moments:
            names += (f"square{self.place}",)
        return names + self.distinct_doubled()

    def distinct_doubled(self) -> tuple[str, ...]:
        """Names of the doubled lanes that only follow from which values there are."""
        if self.distinct_sums and pa.types.is_floating(self.argument.type):
            return (f"total{self.place}d",)
        return ()

    def values(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Names and types of its value lanes."""
        return (*self.extreme_lanes(), *self.statistic_lanes())

    def weigh(self, values: pa.Array) -> dict[str, np.ndarray]:
        """What each row adds to the additive lanes; floats undoubled under the lane's own name."""
        weights = _weigh(values, self.argument.type, self.place, self.sums)
        if self.moments:
            weights |= _weigh_floats(values, self.place)
        if self.holistic:
            valid = weights[f"count{self.place}"] > 0
            mixed = stable_hash([values], len(values)).view(np.int64)
            weights[f"mix{self.place}"] = np.where(valid, mixed, 0)
        return weights

    def weigh_distinct(self, values: pa.Array) -> dict[str, np.ndarray]:
        """What each value adds to the lanes of distinct values where it comes to be there."""
        return _weigh(values, self.argument.type, f"{self.place}d", self.distinct_sums)


def _odd_lanes(place: int | str) -> tuple[str, ...]:
    return (f"nan{place}", f"plus{place}", f"minus{place}")


def _sum_lanes(argument: Expression, place: int | str, sums: bool) -> tuple[str, ...]:
    if not sums:
        return ()
    if pa.types.is_floating(argument.type):
        return _odd_lanes(place)
    return tuple(f"sum{place}.{limb}" for limb in range(_limbs(argument.type)))


def _weigh(
    values: pa.Array, kind: pa.DataType, place: int | str, sums: bool
) -> dict[str, np.ndarray]:
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    weights: dict[str, np.ndarray] = {f"count{place}": valid.astype(np.int64)}
    if sums and pa.types.is_floating(kind):
        weights |= _weigh_floats(values, place)
    elif sums:
        for limb, part in enumerate(_split(values, kind)):
            weights[f"sum{place}.{limb}"] = np.where(valid, part, 0)
    return weights


def _weigh_floats(values: pa.Array, place: int | str) -> dict[str, np.ndarray]:
    numbers = values.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False)
    return {
        f"nan{place}": np.isnan(numbers).astype(np.int64),
        f"plus{place}": (numbers == np.inf).astype(np.int64),
        f"minus{place}": (numbers == -np.inf).astype(np.int64),
        f"total{place}": np.where(np.isfinite(numbers), numbers, 0.0),
    }


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
            of_it = [call for call in calls if call.argument and call.argument.sql == text]
            uses = {call.function for call in of_it if not call.distinct}
            once = {call.function for call in of_it if call.distinct} - {"string_agg"}
            statistics = [part for call in of_it for part in statistics_of(call)]
            measures.append(
                Measure(
                    place=place,
                    argument=argument,
                    sums=bool(uses & {"sum", "avg"}),
                    moments=bool(uses & set(_MOMENTS)),
                    smallest="min" in uses,
                    largest="max" in uses,
                    distinct=bool(once),
                    distinct_sums=bool(once & {"sum", "avg"}),
                    texts=any(call.function == "string_agg" for call in of_it),
                    statistics=tuple(dict.fromkeys(statistics)),
                )
            )
        types = tuple(node.schema.field(name).type for name, _ in node.aggregates)
        return Measures(calls, types, tuple(measures))

    @property
    def counting(self) -> bool:
        """Whether anything but extremes is asked for; else rows need not be counted."""
        return any(call.function not in ("min", "max") for call in self.calls)

    @property
    def holistic(self) -> tuple[Measure, ...]:
        """Arguments of which all values are kept, in order."""
        return tuple(measure for measure in self.arguments if measure.holistic)

    @property
    def combines(self) -> bool:
        """Whether rows with the same ends may be added up before anything else."""
        return not any(measure.needs_values for measure in self.arguments)

    @property
    def late(self) -> frozenset[str]:
        """Lanes that no row adds to by itself."""
        lanes = [(*part.distinct_whole(), *part.distinct_doubled()) for part in self.arguments]
        return frozenset(name for names in lanes for name in names)

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
            measure = by_text[call.argument.sql]
            if call.function in ("min", "max"):
                results.append(values[f"{call.function}{measure.place}"])
            elif statistics_of(call):
                count = whole[f"count{measure.place}"]
                results.append(percentile(call, measure.place, measure.ranked, count, values))
            elif call.function == "string_agg":
                # Written out only where it leaves.
                results.append(pa.nulls(len(whole[COUNT]), pa.string()))
            else:
                place = f"{measure.place}d" if call.distinct else f"{measure.place}"
                results.append(_additive(call, kind, place, whole, doubled))
        return results


def _additive(
    call: AggregateCall,
    kind: pa.DataType,
    place: str,
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


def _with_specials(total: Floats, place: str, whole: Mapping[str, Ints]) -> Floats:
    nan, plus, minus = (whole[f"{name}{place}"] > 0 for name in ("nan", "plus", "minus"))
    total = np.where(plus, np.inf, np.where(minus, -np.inf, total))
    return np.where(nan | (plus & minus), np.nan, total)


def _moment(
    function: str, place: str, whole: Mapping[str, Ints], doubled: Mapping[str, Double]
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
