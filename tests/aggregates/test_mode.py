"""MODE is the most frequent value; of several, the smallest."""

from __future__ import annotations

from decimal import Decimal
from math import isnan, nan
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.source import Source
from anabranch.errors import AnabranchError
from anabranch.expressions.expression import Expression
from anabranch.language.text.aggregate_text import parse_aggregate
from anabranch.testing import PhysicalStream, adjust, assert_agrees, insert, stable, streams


def mode(kind: pa.DataType) -> AggregateCall:
    schema = pa.schema([("x", kind)])
    return AggregateCall(function="mode", argument=Expression.column("x", schema))


@pytest.mark.parametrize(
    ("kind", "values", "result"),
    [
        (pa.int64(), [3, 1, 3, None, None, None], 3),
        (pa.int64(), [2, 1, 2, 1, 9], 1),
        (pa.int64(), [None], None),
        (pa.string(), ["b", "a", "b"], "b"),
        (pa.string(), ["b", "a"], "a"),
        (pa.bool_(), [True, False, True], True),
        (pa.decimal128(30, 1), [Decimal("7.5"), Decimal("1.0"), Decimal("7.5")], Decimal("7.5")),
        (pa.float64(), [nan, 1.0, nan], nan),
        (pa.float64(), [nan, 1.0], 1.0),
        (pa.float64(), [0.0, -0.0, 5.0], 0.0),
    ],
)
def test_the_most_frequent_value_is_the_mode(
    kind: pa.DataType, values: list[Any], result: Any
) -> None:
    found = mode(kind).denote([(value, 1) for value in values])
    assert found == result or (isnan(found) and isnan(result))


def test_a_correction_changes_the_mode() -> None:
    schema = pa.schema([("x", pa.int64())])
    node = Aggregation(input=Source(name="S", schema=schema), aggregates=(("m", mode(pa.int64())),))
    elements = (
        insert(5, start=0, end=9),
        insert(5, start=2, end=9),
        insert(3, start=1, end=9),
        adjust(5, start=2, end=9, new_end=2),
        stable(20),
    )
    for size in (1, 2, len(elements)):
        assert_agrees(node, PhysicalStream(schema, elements), batch_size=size)


WIDE = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("s", pa.string())])


@given(streams(WIDE), st.integers(1, 6), st.sampled_from(["x", "s"]))
def test_beside_other_aggregates_of_its_argument_it_means_the_same(
    stream: PhysicalStream, batch_size: int, column: str
) -> None:
    argument = Expression.column(column, WIDE)
    others: list[AggregateCall] = [
        AggregateCall(function="percentile_disc", argument=argument, fraction=0.5),
        AggregateCall(function="count", argument=argument, distinct=True),
        AggregateCall(function="max", argument=argument),
    ]
    calls = [AggregateCall(function="mode", argument=argument), *others]
    node = Aggregation(
        input=Source(name="S", schema=WIDE),
        group_by=(("k", Expression.column("k", WIDE)),),
        aggregates=tuple((call.function, call) for call in calls),
    )
    assert_agrees(node, stream, batch_size=batch_size)


@pytest.mark.parametrize(
    "text", ["MODE(x)", "mode(x, true)", "Mode(x, FALSE)", "MODE() WITHIN GROUP (ORDER BY x)"]
)
def test_it_is_written_as_in_spark(text: str) -> None:
    assert parse_aggregate(text, WIDE).label == "mode(x)"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("MODE(DISTINCT x)", "DISTINCT cannot be used with mode"),
        ("MODE() WITHIN GROUP (ORDER BY x DESC)", "ascending"),
        ("MODE(x, 1)", "TRUE or FALSE"),
        ("MODE()", "takes one expression"),
        ("MODE(array(x))", "does not work on values of type list"),
    ],
)
def test_what_is_wrong_is_said(text: str, what: str) -> None:
    with pytest.raises(AnabranchError, match=what):
        parse_aggregate(text, WIDE)


@pytest.mark.spark
def test_spark_has_the_same_mode(spark: Any) -> None:
    rows = [3, 1, None, 3, 1, 7]
    frame = spark.createDataFrame([(value,) for value in rows], "x bigint")
    assert frame.selectExpr("mode(x, true) AS m").collect()[0]["m"] == mode(pa.int64()).denote(
        [(value, 1) for value in rows]
    )
