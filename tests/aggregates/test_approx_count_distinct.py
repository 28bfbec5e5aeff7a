"""APPROX_COUNT_DISTINCT is exact, whatever is withdrawn."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.errors import AnabranchError
from anabranch.expressions.expression import Expression
from anabranch.language.text.aggregate_text import parse_aggregate
from anabranch.model.time import Duration
from anabranch.testing import PhysicalStream, adjust, assert_agrees, insert, stable, streams

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
SOURCE = Source(name="S", schema=SCHEMA)


def counted(over: Node, column: str) -> Aggregation:
    argument = Expression.column(column, SCHEMA)
    call = AggregateCall(function="approx_count_distinct", argument=argument)
    exact = AggregateCall(function="count", argument=argument, distinct=True)
    return Aggregation(input=over, aggregates=(("near", call), ("exact", exact)))


@given(streams(SCHEMA), st.integers(1, 6), st.sampled_from(["x", "s"]))
def test_it_is_the_number_of_different_values(
    stream: PhysicalStream, batch_size: int, column: str
) -> None:
    for batch in assert_agrees(counted(SOURCE, column), stream, batch_size=batch_size):
        assert batch.payload.column("near").equals(batch.payload.column("exact"))


@given(streams(SCHEMA), st.integers(1, 6))
def test_windows_over_lifetimes_do_not_change_it(stream: PhysicalStream, batch_size: int) -> None:
    window = TimeWindow(input=SOURCE, size=Duration(4), slide=Duration(2))
    assert_agrees(counted(window, "s"), stream, batch_size=batch_size)


def test_what_is_withdrawn_is_not_counted() -> None:
    elements = (
        insert(1, 1.0, "a", start=0, end=9),
        insert(1, 2.0, "b", start=0, end=9),
        adjust(1, 2.0, "b", start=0, end=9, new_end=0),
        stable(9),
    )
    (batch,) = assert_agrees(counted(SOURCE, "s"), PhysicalStream(SCHEMA, elements))
    assert batch.payload.column("near").to_pylist() == [1]


@pytest.mark.parametrize(
    "text",
    [
        "approx_count_distinct(s)",
        "APPROX_COUNT_DISTINCT(s, 0.05)",
        "APPROX_COUNT_DISTINCT(DISTINCT s)",
    ],
)
def test_it_is_written_as_in_spark(text: str) -> None:
    assert parse_aggregate(text, SCHEMA).label == "approx_count_distinct(s)"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("APPROX_COUNT_DISTINCT(s, 'b')", "'b' is not a relative deviation"),
        ("APPROX_COUNT_DISTINCT(s, 0)", "between 0 and 1"),
        ("APPROX_COUNT_DISTINCT(s, 5)", "between 0 and 1"),
        ("APPROX_COUNT_DISTINCT(s, x)", "must be a constant"),
    ],
)
def test_what_is_wrong_is_said(text: str, what: str) -> None:
    with pytest.raises(AnabranchError, match=what):
        parse_aggregate(text, SCHEMA)


def test_without_values_it_is_zero() -> None:
    call: Any = counted(SOURCE, "x").aggregates[0][1]
    assert call.denote([(None, 3)]) == 0
    assert call.denote([(1.5, 2), (2.5, 1), (None, 1)]) == 2
