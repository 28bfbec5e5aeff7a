"""Time windows whose rows say which window shows them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.errors import StreamError
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.plan.explain import explain_stages
from anabranch.kernels.stateless.time_window import TimeWindowKernel
from anabranch.model.batch import EventBatch
from anabranch.model.time import Duration
from anabranch.testing import (
    LocalRunner,
    PhysicalStream,
    adjust,
    assert_agrees,
    batchings,
    elements_of,
    insert,
    payload_schemas,
    points,
    stable,
)
from tests.kernels.plans import SCHEMA, aggregate

BOUNDS = ("window_start", "window_end")
POINTS = Source(name="S", schema=SCHEMA, only_points=True)


def shown(size: int, slide: int, **options: Any) -> TimeWindow:
    given: dict[str, Any] = {"input": POINTS, "columns": BOUNDS, **options}
    return TimeWindow(size=Duration(size), slide=Duration(slide), **given)


WINDOWS = st.one_of(
    st.builds(shown, st.integers(1, 14), st.integers(2, 9)),
    st.integers(1, 9).map(lambda size: shown(size, size)),
    st.builds(shown, st.just(2**62), st.sampled_from([2**60, 2**62, 2**62 - 1])),
)


@given(WINDOWS, points(SCHEMA).flatmap(batchings), st.sampled_from(["speculative", "final"]))
def test_windows_with_bounds(
    node: TimeWindow, batches: list[EventBatch], emit: Literal["speculative", "final"]
) -> None:
    left = assert_agrees(node, batches, emit=emit)
    assert [batch.schema.names for batch in left] == [node.schema.names] * len(left)


@given(st.data(), payload_schemas())
def test_any_columns(data: st.DataObject, schema: pa.Schema) -> None:
    source = Source(name="S", schema=schema, only_points=True)
    batches = data.draw(points(schema).flatmap(batchings))
    assert_agrees(shown(5, 2, input=source), batches)


@given(WINDOWS, points(SCHEMA).flatmap(batchings))
def test_the_bounds_may_be_grouped_by(node: TimeWindow, batches: list[EventBatch]) -> None:
    """Of the source, only the columns that something reads come here; never the window's own."""
    counted = aggregate(node, BOUNDS, "n")
    assert_agrees(counted, batches)
    assert "reads source:S ()" in explain_stages(compile_plan(counted))
    assert_agrees(aggregate(node, ("k", "window_end"), "s"), batches)


def test_a_withdrawn_point_is_withdrawn_from_all_windows() -> None:
    letters = Source(name="S", schema=SCHEMA.remove(2).remove(1), only_points=True)
    come, gone = insert("a", start=4, end=5), adjust("a", start=4, end=5, new_end=4)
    stream = PhysicalStream(letters.schema, (come, gone, stable(9)))
    left = assert_agrees(shown(4, 2, input=letters), stream, batch_size=1)
    assert elements_of(left[0]) == [
        insert("a", 2, 6, start=5, end=7),
        insert("a", 4, 8, start=7, end=9),
    ]
    assert elements_of(left[1]) == [
        adjust("a", 2, 6, start=5, end=7, new_end=5),
        adjust("a", 4, 8, start=7, end=9, new_end=7),
    ]


def test_bounds_count_as_the_source_does() -> None:
    clock = replace(POINTS, timestamps=True)
    times = np.array([12_000_000])
    payload = pa.RecordBatch.from_pylist([{"k": "a", "v": 1, "x": 0.5}], schema=SCHEMA)
    batch = EventBatch(payload, times, times, times + 1)
    assert_agrees(shown(10_000_000, 10_000_000, input=clock), [batch])
    out = TimeWindowKernel(shown(10_000_000, 10_000_000, input=clock)).apply(batch)
    assert [str(out.payload.column(name)[0]) for name in BOUNDS] == [
        "1970-01-01 00:00:10+00:00",
        "1970-01-01 00:00:20+00:00",
    ]


def test_too_many_windows_are_refused() -> None:
    row = insert("a", 1, 0.5, start=4, end=5)
    batch = PhysicalStream(SCHEMA, (row,)).batches()[0]
    with pytest.raises(StreamError, match="in 50000000 windows") as raised:
        LocalRunner(shown(10**8, 2)).step({"S": batch})
    assert "longer slide" in str(raised.value)
