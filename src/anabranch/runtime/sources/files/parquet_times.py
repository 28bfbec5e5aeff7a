"""The times of the rows of a row group, as the statistics of a Parquet file tell them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, TypeAlias, final

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.model.time import FOREVER, Time
from anabranch.runtime.sources.rows import instants
from anabranch.runtime.sources.spec import Shape

Value: TypeAlias = int | str
"""What statistics are compared with."""

_UNITS: Final = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_IN_CHRONONS: Final = (pa.int64(), pa.timestamp("us"))
"""Types whose numbers are instants as they are."""

_STABLE: Final = "stable"
_INSERT: Final = "insert"


@final
class StartStatistics:
    """Reads statistics instead of rows; None where they are absent or do not say enough."""

    def __init__(self, metadata: pq.FileMetaData, shape: Shape | None) -> None:
        """Find the columns of time; without a shape nothing is known."""
        self._metadata = metadata
        self._shape = shape
        paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
        self._columns = {path: number for number, path in enumerate(paths)}

    def latest(self, group: int) -> Time | None:
        """The largest start of a row group that holds no stable points.

        The value takes the way that values of the column take, so units and rounding are the same.
        """
        shape = self._shape
        if shape is None or shape.start is None or not self._has_no_stables(shape.kind, group):
            return None
        found = self._bounds(shape.start, group)
        return None if found is None else found[1]

    def hulls(self, groups: Sequence[int]) -> list[tuple[Time, Time] | None]:
        """For each row group: no row starts before the first instant, or ends after the second.

        None where the statistics do not even tell the starts.
        """
        shape = self._shape
        if shape is None or shape.start is None or shape.end is not None:
            return [self._hull(group) for group in groups]
        return [
            None if starts is None else (starts[0], Time(min(starts[1] + 1, FOREVER)))
            for starts in self._all_bounds(shape.start, groups)
        ]

    def _hull(self, group: int) -> tuple[Time, Time] | None:
        shape = self._shape
        starts = None if shape is None or shape.start is None else self._bounds(shape.start, group)
        if shape is None or starts is None:
            return None
        if shape.end is None:
            return starts[0], Time(min(starts[1] + 1, FOREVER))
        # Where an end is missing it is forever.
        ends = [self._latest_end(shape.end, group)]
        if shape.new_end is not None and shape.new_end in self._columns:
            kinds = None if shape.kind is None else self._statistics(shape.kind, group)
            if kinds is None or not kinds.min == kinds.max == _INSERT:
                ends.append(self._latest_end(shape.new_end, group))
        return starts[0], max(ends)

    def _latest_end(self, name: str, group: int) -> Time:
        found = self._bounds(name, group)
        statistics = self._statistics(name, group)
        if found is None or statistics is None or not statistics.has_null_count:
            return FOREVER
        return FOREVER if statistics.null_count else found[1]

    def may_hold(self, group: int, name: str, least: Value, most: Value) -> bool:
        """Whether a column of whole numbers or texts may have values within these bounds."""
        found = self._statistics(name, group)
        if found is None or type(found.min) is not type(least):
            return True
        # Both are numbers, or both are texts.
        low: Any = found.min
        high: Any = found.max
        return bool(low <= most and high >= least)

    def _bounds(self, name: str, group: int) -> tuple[Time, Time] | None:
        """The smallest and the largest instant of a column."""
        return self._all_bounds(name, [group])[0]

    def _all_bounds(self, name: str, groups: Sequence[int]) -> list[tuple[Time, Time] | None]:
        """The same for many row groups: their numbers become instants in one go."""
        found = [self._statistics(name, group) for group in groups]
        raw = [number for each in found if each is not None for number in _raw(each)]
        kind = self._type(name) if raw else None
        if kind is None:
            return [None] * len(groups)
        if kind in _IN_CHRONONS:
            pairs = iter(zip(raw[::2], raw[1::2], strict=True))
            return [None if each is None else _times(next(pairs)) for each in found]
        values = pa.array(raw, pa.int64())
        values = values.cast(pa.int32()).cast(kind) if pa.types.is_date(kind) else values.cast(kind)
        times, _ = instants(pa.RecordBatch.from_arrays([values], [name]), name, "")
        both = iter(times.reshape(-1, 2).tolist())
        return [None if each is None else _times(next(both)) for each in found]

    def _has_no_stables(self, kind: str | None, group: int) -> bool:
        """Kinds are `adjust`, `insert` and `stable`, in this order."""
        if kind is None:
            return True
        found = self._statistics(kind, group)
        return found is not None and isinstance(found.max, str) and found.max < _STABLE

    def _statistics(self, name: str, group: int) -> pq.Statistics | None:
        if name not in self._columns:
            return None
        found = self._metadata.row_group(group).column(self._columns[name]).statistics
        return found if found is not None and found.has_min_max else None

    def _type(self, name: str) -> pa.DataType | None:
        """The type of the numbers in the file, which may be finer than what it is read as."""
        column = self._metadata.schema.column(self._columns[name])
        if column.physical_type not in ("INT32", "INT64"):
            return None
        logical = json.loads(column.logical_type.to_json())
        if logical["Type"] == "Timestamp":
            unit = _UNITS.get(logical["timeUnit"])
            return None if unit is None else pa.timestamp(unit)
        if logical["Type"] == "Date":
            return pa.date32()
        is_plain = logical["Type"] == "None" or (logical["Type"] == "Int" and logical["isSigned"])
        return pa.int64() if is_plain else None


def _raw(statistics: pq.Statistics) -> tuple[Any, Any]:
    return statistics.min_raw, statistics.max_raw


def _times(both: Sequence[int]) -> tuple[Time, Time]:
    return Time(both[0]), Time(both[1])
