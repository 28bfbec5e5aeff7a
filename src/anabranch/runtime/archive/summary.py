"""What is left of an archive that keeps no rows: counts, sums and bounds per stretch of time.

A summary has one row per group and bucket of time in which rows started: how many there were, and
of one column the sum, the least and the greatest value. It is a small Parquet file that every
engine reads. It cannot be replayed, but corrections can be estimated from it, with bounds that
hold (`estimate.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.errors import PlanError, StreamError
from anabranch.model.batch import EventBatch

BUCKET: Final = "bucket"
ROWS: Final = "rows"
_NOTE: Final = b"anabranch.summary"
ROUNDING: Final = 64 * float(np.finfo(np.float64).eps)
"""Arrow adds in pairs: a sum of up to 2^64 values is off by at most so much of their sizes."""


@final
@dataclass(frozen=True, slots=True)
class SummaryBucket:
    """What is known of the rows of a group that start in a bucket.

    Attributes:
        start: The first instant of the bucket.
        rows: How many rows there are.
        total: The sum of the column.
        low: Its least value.
        high: Its greatest one.
    """

    start: int
    rows: int
    total: float
    low: float
    high: float

    @property
    def rounding(self) -> float:
        """By how much the sum may be off."""
        return ROUNDING * self.rows * max(abs(self.low), abs(self.high))

    def without(self, value: float) -> SummaryBucket:
        """The bucket less one row; the bounds of the others stay as they are."""
        return replace(self, rows=self.rows - 1, total=self.total - value)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSummary:
    """Counts, sums and bounds of one column.

    Attributes:
        table: The columns of the group, `bucket`, `rows`, `sum`, `min`, `max`.
        by: The columns of the group.
        column: The column that was added up; empty where rows were counted only.
        width: How long a bucket is, in chronons.
    """

    table: pa.Table
    by: tuple[str, ...]
    column: str
    width: int

    @staticmethod
    def of(
        batches: Iterable[EventBatch], *, by: Sequence[str], column: str, width: int
    ) -> ArchiveSummary:
        """The summary of rows that hold for an instant each.

        Raises:
            PlanError: There is no such column, or it is not of numbers; the width is none.
            StreamError: A row holds for longer, or was withdrawn.
        """
        if width < 1:
            raise PlanError(
                f"a bucket cannot be {width} instants long", hint="use a positive width"
            )
        parts = [_bucketed(batch, by, column, width) for batch in batches if len(batch)]
        if not parts:
            raise StreamError("there are no rows to sum up", hint="let a query write the archive")
        table = _grouped(pa.concat_tables(parts), (*by, BUCKET), ROWS)
        return ArchiveSummary(table=table, by=tuple(by), column=column, width=width)

    def plus(self, other: ArchiveSummary) -> ArchiveSummary:
        """With more rows: summaries of batches add up."""
        table = _grouped(pa.concat_tables([self.table, other.table]), (*self.by, BUCKET), ROWS)
        return ArchiveSummary(table=table, by=self.by, column=self.column, width=self.width)

    def buckets(self, group: Sequence[Any], first: int, last: int) -> list[SummaryBucket]:
        """The buckets of a group that begin in `[first, last)`."""
        start = self.table.column(BUCKET)
        wanted = pc.and_(pc.greater_equal(start, first), pc.less(start, last))
        for name, value in zip(self.by, group, strict=True):
            column = self.table.column(name)
            same = (
                pc.is_null(column)
                if value is None
                else pc.equal(column, pa.scalar(value, column.type))
            )
            wanted = pc.and_(wanted, same)
        found = self.table.filter(wanted).select([BUCKET, ROWS, "sum", "min", "max"])
        return [SummaryBucket(*row.values()) for row in found.to_pylist()]

    def write(self, path: str | Path) -> None:
        """Keep it in a Parquet file."""
        note = {"by": list(self.by), "column": self.column, "width": self.width}
        schema = self.table.schema.with_metadata({_NOTE: json.dumps(note).encode()})
        pq.write_table(self.table.cast(schema), str(path))

    @staticmethod
    def read(path: str | Path) -> ArchiveSummary:
        """One that was kept.

        Raises:
            StreamError: The file is none.
        """
        try:
            table = pq.read_table(str(path))
            note = json.loads((table.schema.metadata or {})[_NOTE])
        except (OSError, KeyError, pa.ArrowInvalid):
            raise StreamError(
                "not a summary", where=str(path), hint="write one: anabranch.summarize(...)"
            ) from None
        return ArchiveSummary(
            table=table, by=tuple(note["by"]), column=note["column"], width=note["width"]
        )


def _bucketed(batch: EventBatch, by: Sequence[str], column: str, width: int) -> pa.Table:
    """One row per row, in the form of a summary."""
    values = batch.payload.column(column) if column else pa.array(np.zeros(len(batch)))
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise PlanError(
            f"column '{column}' is not a number", hint="sum up a column of integers or floats"
        )
    if not ((batch.end == batch.start) & (batch.new_end == batch.start + 1)).all():
        raise StreamError(
            "only rows that hold for an instant can be summed up",
            hint="an archive with withdrawals or lifetimes has to keep its rows",
        )
    values = pc.cast(values, pa.float64())
    counted = pc.is_valid(values)
    bucket = pa.array(batch.start - batch.start % width, pa.int64())
    keys = [batch.payload.column(name) for name in by]
    ones = pa.array(np.ones(len(batch), np.int64))
    table = pa.table(
        [*keys, bucket, ones, values, values, values],
        names=[*by, BUCKET, ROWS, "sum", "min", "max"],
    )
    return table.filter(counted)


def _grouped(table: pa.Table, keys: Sequence[str], rows: str) -> pa.Table:
    sums = [(rows, "sum"), ("sum", "sum"), ("min", "min"), ("max", "max")]
    found = table.group_by(list(keys), use_threads=False).aggregate(sums)
    found = found.select([*keys, *(f"{name}_{function}" for name, function in sums)])
    found = found.rename_columns([*keys, rows, "sum", "min", "max"])
    return found.sort_by([(BUCKET, "ascending")]).combine_chunks()
