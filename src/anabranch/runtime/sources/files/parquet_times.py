"""The largest start of a row group, as the statistics of a Parquet file tell it."""

from __future__ import annotations

import json
from typing import Final, final

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.model.time import Time
from anabranch.runtime.sources.rows import latest_times
from anabranch.runtime.sources.spec import Shape

_UNITS: Final = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_STABLE: Final = "stable"


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
        found = self._statistics(shape.start, group)
        kind = self._type(shape.start)
        if found is None or kind is None:
            return None
        value = pa.array([found.max_raw], pa.int64())
        value = value.cast(pa.int32()).cast(kind) if pa.types.is_date(kind) else value.cast(kind)
        rows = pa.RecordBatch.from_arrays([value], [shape.start])
        return latest_times(rows, Shape(start=shape.start), where="")[0]

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
