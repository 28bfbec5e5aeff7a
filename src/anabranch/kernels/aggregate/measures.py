"""Aggregates as lanes of a timeline: what each row weighs, and what the weights amount to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.aggregates.call import AggregateCall
from anabranch.aggregates.lanes import Rank, Statistic, ValueLane
from anabranch.aggregates.whole_sums import exact_of_limbs
from anabranch.algebra.aggregate import Aggregation
from anabranch.expressions.expression import Expression
from anabranch.kernels.aggregate.argument_lanes import (
    AdditiveLanes,
    ExtremeLane,
    StatisticLane,
    limb_count,
    value_column,
)
from anabranch.kernels.aggregate.timeline_lanes import TimelineLanes
from anabranch.kernels.columns.codes import has_code
from anabranch.kernels.columns.grouped import Floats, Ints
from anabranch.kernels.columns.sum_lanes import SumLane
from anabranch.kernels.trace.timeline import Lanes
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.numbers.hashing import stable_hash

_LOW: Final = np.int64(2**32 - 1)
_EXTREMES: Final = (ValueLane.SMALLEST, ValueLane.LARGEST)


@final
@dataclass(frozen=True, slots=True)
class Measure:
    """What the timeline keeps of one argument: the lanes that its aggregates need.

    All sums are exact, so that results depend on neither order nor batches, and what leaves is as
    if it had never been there. Sums over distinct values have lanes of their own.

    Where all values matter, the lane `mix` adds up their hashes: it differs where the values do,
    so the timeline has a row wherever a value comes or goes, even where nothing else changes.

    Attributes:
        place: The number of the argument.
        argument: What is measured.
        needs: Lanes over all values.
        statistics: Values at an index.
        once: Lanes over the distinct values; None if nothing is asked about these.
    """

    index: int
    argument: Expression
    needs: frozenset[ValueLane]
    statistics: tuple[Statistic, ...]
    once: frozenset[ValueLane] | None

    @staticmethod
    def of(index: int, argument: Expression, calls: list[AggregateCall]) -> Measure:
        """What some aggregates need of their one argument."""
        needs: set[ValueLane] = set()
        once: set[ValueLane] | None = None
        statistics: list[Statistic] = []
        for call in calls:
            lanes = {need for need in call.needs if isinstance(need, ValueLane)}
            statistics += [need for need in call.needs if isinstance(need, Statistic)]
            # Who has all values needs no lanes of distinct ones.
            if call.counts_once and not call.needs_values:
                once = (once or set()) | lanes
            else:
                needs |= lanes
        distinct = None if once is None else frozenset(once)
        return Measure(
            index, argument, frozenset(needs), tuple(dict.fromkeys(statistics)), distinct
        )

    @property
    def additive(self) -> AdditiveLanes:
        """Counts and sums over all values."""
        return AdditiveLanes(f"{self.index}", self.argument.type)

    @property
    def additive_once(self) -> AdditiveLanes:
        """Counts and sums over distinct values."""
        return AdditiveLanes(f"{self.index}d", self.argument.type)

    @property
    def value_column(self) -> str:
        """The column of arriving rows with its values."""
        return value_column(self.index)

    @property
    def distinct(self) -> bool:
        """Whether distinct values are asked about."""
        return self.once is not None

    @property
    def writes_values(self) -> bool:
        """Whether results follow from all values only."""
        return ValueLane.VALUES in self.needs

    @property
    def holistic(self) -> bool:
        """Whether all values are kept, in order."""
        return self.writes_values or bool(self.statistics)

    @property
    def needs_values(self) -> bool:
        """Whether weights are not enough."""
        return bool(self.extremes) or self.distinct or self.holistic

    @property
    def sums(self) -> bool:
        """Whether values are added up."""
        return ValueLane.TOTAL in self.needs

    @property
    def squares(self) -> bool:
        """Whether squares are added up."""
        return ValueLane.SQUARES in self.needs

    @property
    def extremes(self) -> tuple[ExtremeLane, ...]:
        """The lanes of its extremes."""
        kind = self.argument.type
        return tuple(
            ExtremeLane(self.index, each, kind) for each in _EXTREMES if each in self.needs
        )

    @property
    def ranked(self) -> pa.DataType:
        """The type of the values that are put in order."""
        kind = self.argument.type
        exact = self.writes_values or any(each.rank is Rank.DISC for each in self.statistics)
        return kind if exact or has_code(kind) else pa.float64()

    @property
    def statistic_lanes(self) -> tuple[StatisticLane, ...]:
        """The lanes of its order statistics."""
        return tuple(StatisticLane(self.index, each, self.ranked) for each in self.statistics)

    def statistic_columns(self) -> tuple[str, ...]:
        """Names of the columns of these."""
        return tuple(name for lane in self.statistic_lanes for name, _ in lane.columns)

    def whole(self) -> tuple[str, ...]:
        """Names of its whole lanes."""
        lanes = self.additive
        names: tuple[str, ...] = (lanes.count,)
        if self.sums:
            names += lanes.limbs
        if self.holistic:
            names += (lanes.mix,)
        return names + self.distinct_whole()

    def distinct_whole(self) -> tuple[str, ...]:
        """Names of the whole lanes that only follow from which values there are."""
        if self.once is None:
            return ()
        lanes = self.additive_once
        return (lanes.count, *(lanes.limbs if ValueLane.TOTAL in self.once else ()))

    def exact_sums(self) -> tuple[SumLane, ...]:
        """Its exact sums."""
        lanes = self.additive
        found: tuple[SumLane, ...] = ()
        if lanes.is_floating and self.sums:
            found += (lanes.total,)
        if self.squares:
            found += (lanes.squares,)
        return found + self.distinct_exact_sums()

    def distinct_exact_sums(self) -> tuple[SumLane, ...]:
        """Exact sums that only follow from which values there are."""
        lanes = self.additive_once
        summed = self.once is not None and ValueLane.TOTAL in self.once
        return (lanes.total,) if summed and lanes.is_floating else ()

    def values(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Names and types of its value lanes."""
        extremes = tuple((lane.name, lane.kind) for lane in self.extremes)
        return extremes + tuple(each for lane in self.statistic_lanes for each in lane.columns)

    def weigh(self, values: pa.Array) -> dict[str, np.ndarray]:
        """What each row adds to the additive lanes."""
        lanes = self.additive
        weights = _weigh(values, lanes, self.sums)
        if self.squares and lanes.is_floating:
            weights |= lanes.squares.split_squares(_floats(values))
        elif self.squares:
            exact = exact_of_limbs([weights[name] for name in lanes.limbs])
            weights |= lanes.squares.named(exact.squared().to_digits())
        if self.holistic:
            mixed = stable_hash([values], len(values)).view(np.int64)
            weights[lanes.mix] = np.where(weights[lanes.count] > 0, mixed, 0)
        return weights

    def weigh_distinct(self, values: pa.Array) -> dict[str, np.ndarray]:
        """What each value adds to the lanes of distinct values where it comes to be there."""
        assert self.once is not None
        return _weigh(values, self.additive_once, ValueLane.TOTAL in self.once)


def _weigh(values: pa.Array, lanes: AdditiveLanes, sums: bool) -> dict[str, np.ndarray]:
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    weights: dict[str, np.ndarray] = {lanes.count: valid.astype(np.int64)}
    if sums and lanes.is_floating:
        weights |= lanes.total.split(_floats(values))
    elif sums:
        for limb, part in zip(lanes.limbs, _split(values, lanes.kind), strict=True):
            weights[limb] = np.where(valid, part, 0)
    return weights


def _floats(values: pa.Array) -> Floats:
    """The numbers, 0 for NULL."""
    numbers: Floats = values.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy()
    return numbers


def _split(values: pa.Array, kind: pa.DataType) -> list[Ints]:
    """Whole values as limbs, most significant first."""
    if pa.types.is_decimal(kind):
        wide = values.cast(pa.decimal128(38, kind.scale))
        words = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset :][: 2 * len(wide)]
        low, high = words[0::2], words[1::2]
        upper = [high] if limb_count(kind) == 3 else [high >> 32, high & _LOW]
        return [*upper, (low >> 32) & _LOW, low & _LOW]
    whole = values.cast(pa.int64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False)
    return [whole >> 32, whole & _LOW] if limb_count(kind) == 2 else [whole]


@final
@dataclass(frozen=True, slots=True)
class Measures:
    """All that one aggregation keeps."""

    calls: tuple[AggregateCall, ...]
    arguments: tuple[Measure, ...]

    @staticmethod
    def of(node: Aggregation) -> Measures:
        """Share what several aggregates need of one argument."""
        calls = tuple(call for _, call in node.aggregates)
        found: dict[str, tuple[Expression, list[AggregateCall]]] = {}
        for call in calls:
            if call.argument is not None:
                found.setdefault(call.argument.sql, (call.argument, []))[1].append(call)
        arguments = enumerate(found.values())
        measures = tuple(Measure.of(index, argument, own) for index, (argument, own) in arguments)
        return Measures(calls, measures)

    @property
    def counting(self) -> bool:
        """Whether anything but extremes is asked for; else rows need not be counted."""
        return not all(call.needs and set(call.needs) <= set(_EXTREMES) for call in self.calls)

    @property
    def holistic(self) -> tuple[Measure, ...]:
        """Arguments of which all values are kept, in order."""
        return tuple(measure for measure in self.arguments if measure.holistic)

    @property
    def writes_values(self) -> bool:
        """Whether results are made of all values where they leave."""
        return any(measure.writes_values for measure in self.arguments)

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
        return tuple(measure for measure in self.arguments if measure.extremes)

    def lanes(self, checked: bool) -> Lanes:
        """The columns of the timeline."""
        values = tuple(lane for measure in self.arguments for lane in measure.values())
        added = tuple(
            name
            for measure in self.arguments
            for lane in measure.statistic_lanes
            for name in lane.added
        )
        if not self.counting:
            return Lanes(values=values, checked=checked)
        whole = tuple(lane for measure in self.arguments for lane in measure.whole())
        sums = tuple(each for measure in self.arguments for each in measure.exact_sums())
        return Lanes((COUNT, *whole), sums, values, checked, added)

    def measure_of(self, call: AggregateCall) -> Measure:
        """What is kept of the argument of an aggregate."""
        assert call.argument is not None
        text = call.argument.sql
        return next(measure for measure in self.arguments if measure.argument.sql == text)

    def finish(
        self,
        whole: Mapping[str, Ints],
        values: Mapping[str, pa.Array],
    ) -> list[pa.Array]:
        """The results, one array per aggregate; null for those that all values are needed for."""
        results = []
        for call in self.calls:
            if call.argument is None:
                results.append(pa.array(whole[COUNT]))
                continue
            finish = call.definition.finish
            if finish is None:
                results.append(pa.nulls(len(whole[COUNT]), call.type))
                continue
            measure = self.measure_of(call)
            additive = measure.additive_once if call.counts_once else measure.additive
            text = measure.argument.sql
            view = TimelineLanes(additive, text, measure.index, measure.ranked, whole, values)
            results.append(finish(view, call.parameters))
        return results
