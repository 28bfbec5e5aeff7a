"""The largest start by statistics is the one that reading finds."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.runtime.sources.files.parquet_times import StartStatistics
from anabranch.runtime.sources.rows import latest_times
from anabranch.runtime.sources.spec import ELEMENTS, Shape

SHAPE = Shape(start="t")


def latest(table: pa.Table, shape: Shape = SHAPE, **options: Any) -> list[tuple[Any, int]]:
    """Of each row group, what statistics say and what reading says."""
    data = io.BytesIO()
    pq.write_table(table, data, row_group_size=2, **options)
    file = pq.ParquetFile(data, coerce_int96_timestamp_unit="us")
    known = StartStatistics(file.metadata, shape)
    return [
        (
            known.latest(group),
            latest_times(
                file.read_row_group(group).combine_chunks().to_batches()[0], shape, where=""
            )[0],
        )
        for group in range(file.num_row_groups)
    ]


TYPES = [
    pa.int64(),
    pa.int32(),
    pa.int16(),
    pa.date32(),
    pa.date64(),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(values=st.lists(st.integers(-30_000, 30_000), min_size=1, max_size=5))
def test_statistics_count_in_the_units_of_the_rows(kind: pa.DataType, values: list[int]) -> None:
    numbers = pa.array(values, pa.int64())
    if pa.types.is_date32(kind):
        column = numbers.cast(pa.int32()).cast(kind)
    elif pa.types.is_date64(kind):
        column = pa.array([value * 86_400_000 for value in values], pa.int64()).cast(kind)
    else:
        column = numbers.cast(kind)
    for told, seen in latest(pa.table({"t": column, "a": values})):
        assert told == seen


def test_what_statistics_do_not_say_is_not_guessed() -> None:
    numbers = pa.array([1, 2, 3], pa.int64())
    moments = numbers.cast(pa.timestamp("us"))
    assert [told for told, _ in latest(pa.table({"t": numbers}), write_statistics=False)] == [
        None,
        None,
    ]
    old = latest(pa.table({"t": moments}), use_deprecated_int96_timestamps=True)
    assert [told for told, _ in old] == [None, None]
    unsigned = pa.table({"t": pa.array([1, 2, 3], pa.uint64())})
    assert [told for told, _ in latest(unsigned)] == [None, None]


def test_only_row_groups_without_stable_points_are_known() -> None:
    table = pa.table(
        {
            "kind": ["insert", "adjust", "insert", "stable", "stable"],
            "start": [4, 3, 7, 9, 8],
            "end": [5, 5, 8, None, None],
            "new_end": [None, 4, None, None, None],
        }
    )
    assert [told for told, _ in latest(table, ELEMENTS)] == [4, None, None]
