"""The same aggregation with plain doubles, to see what exact sums cost.

A plain sum is one lane of floats: it is added up as it comes, in `prepare`, over time and in the
state, and left as it is at the end. Its last digits depend on batches and on what was withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from anabranch.kernels.aggregate import argument_lanes
from anabranch.kernels.columns import combining
from anabranch.kernels.columns.grouped import Floats, Ints, Mask
from anabranch.kernels.trace import breakpoints, timeline
from anabranch.model.numbers.compiled import FLOATS, INTS, MASK, compiled


@final
@dataclass(frozen=True, slots=True)
class PlainLane:
    """What `SumLane` is to exact sums."""

    name: str
    limbs: tuple[str, ...] = ()

    @property
    def relief(self) -> str:
        """No lane."""
        return ""

    @property
    def rest(self) -> str:
        """The only column."""
        return self.name

    def fields(self) -> list[tuple[str, pa.DataType]]:
        """The column, as it is stored and sent."""
        return [(self.name, pa.float64())]

    def split(self, numbers: Floats) -> dict[str, Floats]:
        """Floats as they are."""
        return {self.name: np.where(np.isfinite(numbers), numbers, 0.0)}

    def named(self, lanes: Mapping[str, Floats]) -> dict[str, Floats]:
        """No lanes more."""
        return dict(lanes)

    def outside(self, lanes: Mapping[str, Any]) -> dict[str, Floats]:
        """No lanes that come and go."""
        del lanes
        return {}

    def lanes(self, lanes: Iterable[str]) -> set[str]:
        """The only one."""
        return {self.name} & set(lanes)

    def relieved(self, lanes: Mapping[str, Any], rows: int) -> dict[str, Floats]:
        """Nothing overflows."""
        del lanes, rows
        return {}

    def carried(self, lanes: Mapping[str, Floats]) -> dict[str, Floats]:
        """Nothing is carried."""
        return {self.name: lanes[self.name]}

    def packed(self, lanes: Mapping[str, Floats], length: int) -> pa.Array:
        """The column."""
        del length
        return pa.array(lanes[self.name])

    def unpacked(self, column: pa.Array) -> dict[str, Floats]:
        """The lane."""
        return {self.name: column.to_numpy()}

    def rounded(self, lanes: Mapping[str, Floats], divisor: Ints | None = None) -> Floats:
        """As it is."""
        return lanes[self.name] if divisor is None else lanes[self.name] / divisor

    def odd(self, lanes: Mapping[str, Floats], slot: int) -> None:
        """NaN and infinities are left out."""
        del lanes, slot


@compiled(FLOATS, INTS, FLOATS, INTS, INTS, MASK, MASK)
def _plain_lane(
    held: Floats,
    source: Ints,
    weight: Floats,
    end_index: Ints,
    new_end_index: Ints,
    first: Mask,
    touched: Mask,
) -> tuple[Floats, Floats]:
    """`native_timeline.lane` for floats."""
    length = len(source)
    old, new = np.empty(length, np.float64), np.zeros(length, np.float64)
    for move in range(len(weight)):
        new[end_index[move]] += weight[move]
        new[new_end_index[move]] -= weight[move]
    total = 0.0
    for index in range(length):
        if first[index]:
            total = 0.0
        total += new[index]
        was = held[source[index]] if source[index] >= 0 else 0.0
        old[index] = was
        new[index] = was + total if touched[index] else was
    return old, new


def _lane_at(held: Any, weight: Any, at: breakpoints.Breakpoints) -> Any:
    if weight.dtype != np.float64:
        return breakpoints.lane_at(held, weight, at)
    held = held.astype(np.float64, copy=False)
    return _plain_lane(
        held, at.source, weight, at.end_index, at.new_end_index, at.first, at.touched
    )


@contextmanager
def plain_sums() -> Iterator[None]:
    """Within this, sums of doubles are plain ones."""

    def total_lane(owner: str) -> PlainLane:
        return PlainLane(f"total{owner}")

    def added_up(values: Any, group: Ints, groups: int) -> Any:
        if values.dtype == np.float64:
            return np.bincount(group, values, groups)
        return in_whole_numbers(values, group, groups)

    in_whole_numbers = combining.added_up
    with (
        patch.object(combining, "added_up", added_up),
        patch.object(argument_lanes, "total_lane", total_lane),
        patch.object(timeline, "lane_at", _lane_at),
    ):
        yield
