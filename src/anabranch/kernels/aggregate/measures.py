"""Aggregates as lanes of a timeline: what each row weighs, and what the weights amount to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.aggregate_functions import AggregateCall
from anabranch.errors import StreamError
from anabranch.expressions.expression import Expression
from anabranch.kernels.aggregate.statistics import Statistic, percentile, statistics_of
from anabranch.kernels.columns.codes import has_code
from anabranch.kernels.columns.grouped import Floats, Ints, Mask
from anabranch.kernels.columns.sum_lanes import SumLane
from anabranch.kernels.trace.timeline import Lanes
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.numbers.digits import MINUS, NAN, PLUS, SQUARES, SUMS, WHOLE_SQUARES
from anabranch.model.numbers.exact_numbers import Exact, quotients
from anabranch.model.numbers.hashing import stable_hash

_LOW: Final = np.int64(2**32 - 1)
_MOMENTS: Final = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")


@final
@dataclass(frozen=True, slots=True)
class Measure:
    """What the timeline keeps of one argument.

    All sums are exact, so that results depend on neither order nor batches, and what leaves is as
    if it had never been there: whole numbers are kept in limbs of 32 bits, which also show an
    overflow, floats in the slots of `model.digits`. Variances follow from the sums of values and
    of squares. Sums over distinct values have lanes of their own, under the place with a `d`.

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

    @property
    def is_floating(self) -> bool:
        """Whether values are floats."""
        return bool(pa.types.is_floating(self.argument.type))

    def whole(self) -> tuple[str, ...]:
        """Names of its whole lanes."""
        names: tuple[str, ...] = (f"count{self.place}",)
        if self.sums or self.moments:
            names += _whole_lanes(self.argument, self.place)
        if self.holistic:
            names += (f"mix{self.place}",)
        return names + self.distinct_whole()

    def distinct_whole(self) -> tuple[str, ...]:
        """Names of the whole lanes that only follow from which values there are."""
        if not self.distinct:
            return ()
        place = f"{self.place}d"
        sums = _whole_lanes(self.argument, place) if self.distinct_sums else ()
        return (f"count{place}", *sums)

    def exact_sums(self) -> tuple[SumLane, ...]:
        """Its exact sums."""
        found: tuple[SumLane, ...] = ()
        if self.is_floating and (self.sums or self.moments):
            found += (total_lane(self.place),)
        if self.moments:
            found += (_squares(self.place, self.argument),)
        return found + self.distinct_exact_sums()

    def distinct_exact_sums(self) -> tuple[SumLane, ...]:
        """Exact sums that only follow from which values there are."""
        return (total_lane(f"{self.place}d"),) if self.distinct_sums and self.is_floating else ()

    def values(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Names and types of its value lanes."""
        return (*self.extreme_lanes(), *self.statistic_lanes())

    def weigh(self, values: pa.Array) -> dict[str, np.ndarray]:
        """What each row adds to the additive lanes."""
        weights = _weigh(values, self.argument.type, self.place, self.sums or self.moments)
        if self.moments:
            lane = _squares(self.place, self.argument)
            if self.is_floating:
                weights |= lane.split_squares(_floats(values))
            else:
                limbs = [weights[name] for name in _whole_lanes(self.argument, self.place)]
                weights |= lane.named(_whole(limbs).squared().to_digits())
        if self.holistic:
            valid = weights[f"count{self.place}"] > 0
            mixed = stable_hash([values], len(values)).view(np.int64)
            weights[f"mix{self.place}"] = np.where(valid, mixed, 0)
        return weights

    def weigh_distinct(self, values: pa.Array) -> dict[str, np.ndarray]:
        """What each value adds to the lanes of distinct values where it comes to be there."""
        return _weigh(values, self.argument.type, f"{self.place}d", self.distinct_sums)


def total_lane(place: int | str) -> SumLane:
    """The lanes of a sum of floats."""
    return SumLane(f"total{place}", SUMS)


def _squares(place: int | str, argument: Expression) -> SumLane:
    floating = pa.types.is_floating(argument.type)
    return SumLane(f"square{place}", SQUARES if floating else WHOLE_SQUARES)


def _whole_lanes(argument: Expression, place: int | str) -> tuple[str, ...]:
    """The lanes of a sum of whole numbers, the limb of the largest digits first."""
    if pa.types.is_floating(argument.type):
        return ()
    return tuple(f"sum{place}.{limb}" for limb in range(_limbs(argument.type)))


def _weigh(
    values: pa.Array, kind: pa.DataType, place: int | str, sums: bool
) -> dict[str, np.ndarray]:
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    weights: dict[str, np.ndarray] = {f"count{place}": valid.astype(np.int64)}
    if sums and pa.types.is_floating(kind):
        weights |= total_lane(place).split(_floats(values))
    elif sums:
        for limb, part in enumerate(_split(values, kind)):
            weights[f"sum{place}.{limb}"] = np.where(valid, part, 0)
    return weights


def _floats(values: pa.Array) -> Floats:
    """The numbers, 0 for NULL."""
    numbers: Floats = values.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy()
    return numbers


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
    def of(node: Aggregation) -> Measures:
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
        return frozenset(name for part in self.arguments for name in part.distinct_whole())

    @property
    def late_sums(self) -> frozenset[SumLane]:
        """Exact sums that no row adds to by itself."""
        return frozenset(each for part in self.arguments for each in part.distinct_exact_sums())

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
        sums = tuple(each for measure in self.arguments for each in measure.exact_sums())
        return Lanes((COUNT, *whole), sums, values, checked)

    def finish(
        self,
        whole: Mapping[str, Ints],
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
                results.append(_additive(call, kind, place, whole))
        return results


def _additive(
    call: AggregateCall, kind: pa.DataType, place: str, whole: Mapping[str, Ints]
) -> pa.Array:
    assert call.argument is not None
    count = whole[f"count{place}"]
    if call.function == "count":
        return pa.array(count)
    none = count == 0
    if call.function in _MOMENTS:
        return _moment(call.function, place, call.argument, whole)
    if pa.types.is_floating(call.argument.type):
        divisor = None if call.function == "sum" else np.maximum(count, 1)
        return pa.array(_float_sum(total_lane(place), whole, divisor), mask=none)
    limbs = [whole[name] for name in _whole_lanes(call.argument, place)]
    if call.function == "sum":
        return _whole_sum(limbs, none, call.argument, kind)
    total = quotients(_whole(limbs), [np.maximum(count, 1)], _scale(call.argument))
    return pa.array(total, mask=none)


def _scale(argument: Expression) -> int:
    """A decimal is a whole number over 10^scale."""
    return int(argument.type.scale) if pa.types.is_decimal(argument.type) else 0


def _whole(limbs: Sequence[Ints]) -> Exact:
    """Whole numbers in limbs of 32 bits, the largest digits first."""
    parts = [(limb, 32 * at) for at, limb in enumerate(reversed(limbs))]
    return Exact.of_parts(parts, 0, len(limbs) + 2)


def _float_sum(lane: SumLane, whole: Mapping[str, Ints], divisor: Ints | None) -> Floats:
    """Sums of floats, or what they are over a count, rounded once; NaN and infinities count."""
    total = lane.rounded(whole, divisor)
    nan, plus, minus = (lane.odd(whole, slot) for slot in (NAN, PLUS, MINUS))
    if plus is not None:
        total = np.where(plus > 0, np.inf, total)
    if minus is not None:
        total = np.where(minus > 0, np.where(total == np.inf, total, -np.inf), total)
    if plus is not None and minus is not None:
        total = np.where((plus > 0) & (minus > 0), np.nan, total)
    return total if nan is None else np.where(nan > 0, np.nan, total)


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


def _moment(function: str, place: str, argument: Expression, whole: Mapping[str, Ints]) -> pa.Array:
    """Variance from exact sums, rounded once: (n * squares - total^2) / (n * n) or (n * (n - 1)).

    The standard deviation is the square root of that.
    """
    count = whole[f"count{place}"]
    lane = _squares(place, argument)
    total = total_lane(place)
    sample = function.endswith("samp")
    few = count < (2 if sample else 1)
    safe = np.where(few, 2, count)
    special = np.zeros(len(count), np.bool_)
    if pa.types.is_floating(argument.type):
        exact = total.exact(whole)
        for slot in (NAN, PLUS, MINUS):
            odd = total.odd(whole, slot)
            special |= False if odd is None else odd > 0
    else:
        exact = _whole([whole[name] for name in _whole_lanes(argument, place)])
    spread = lane.exact(whole).times(safe).minus(exact.squared())
    divisors = [safe, safe - 1 if sample else safe]
    number = quotients(spread, divisors, 2 * _scale(argument))
    number = np.sqrt(number) if function.startswith("stddev") else number
    return pa.array(np.where(special, np.nan, number), mask=few)
