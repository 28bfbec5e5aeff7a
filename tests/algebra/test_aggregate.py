"""Aggregates over snapshots: weights, NULLs, odd floats, and no row for nothing."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.aggregates.call import AggregateCall, Function
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.source import Source
from anabranch.errors import StreamError
from anabranch.expressions.expression import Expression
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import rows_of
from anabranch.model.time import FOREVER
from anabranch.testing import PhysicalStream, streams

NAN, INF = math.nan, math.inf


def call(function: Function, kind: pa.DataType, *, distinct: bool = False) -> AggregateCall:
    argument = Expression.parse("x", pa.schema([("x", kind)]))
    return AggregateCall(function=function, argument=argument, distinct=distinct)


def aggregate(function: Function, kind: pa.DataType, *values: object) -> Any:
    return call(function, kind).denote([(value, 1) for value in values])


@pytest.mark.parametrize(
    ("function", "values", "result"),
    [
        ("count", [], 0),
        ("count", [None, None], 0),
        ("count", [None, 0.0, NAN], 2),
        ("sum", [1.5, 2.25, None], 3.75),
        ("sum", [None], None),
        ("sum", [INF, 1.0], INF),
        ("sum", [INF, -INF], NAN),
        ("sum", [NAN, 1.0], NAN),
        ("sum", [1e308, 1e308], INF),
        ("sum", [1e16, 1.0, -1e16], 1.0),
        ("avg", [1.0, 2.0, None], 1.5),
        ("avg", [-INF, 5.0], -INF),
        ("avg", [NAN, INF], NAN),
        ("min", [2.0, None, -1.0], -1.0),
        ("min", [NAN, 2.0], 2.0),
        ("min", [NAN, NAN], NAN),
        ("min", [-INF, 2.0], -INF),
        ("max", [2.0, NAN, INF], NAN),
        ("max", [2.0, None], 2.0),
        ("max", [None], None),
        ("var_pop", [1.0, 2.0, 3.0, 4.0], 1.25),
        ("var_pop", [5.0], 0.0),
        ("var_pop", [], None),
        ("var_pop", [INF, 1.0], NAN),
        ("var_samp", [1.0, 2.0, 3.0, 4.0], 5 / 3),
        ("var_samp", [5.0], None),
        ("var_samp", [5.0, None], None),
        ("var_samp", [NAN], None),
        ("var_samp", [NAN, 1.0], NAN),
        ("stddev_pop", [1.0, 3.0], 1.0),
        ("stddev_samp", [1.0, 3.0], math.sqrt(2)),
        ("stddev_samp", [1.0], None),
    ],
)
def test_an_aggregate_of_floats_is(
    function: Function, values: list[float | None], result: float | None
) -> None:
    found = aggregate(function, pa.float64(), *values)
    assert repr(found) == repr(result)


@pytest.mark.parametrize(
    ("function", "kind", "values", "result", "result_kind"),
    [
        ("sum", pa.int32(), [2**31 - 1, 1], 2**31, pa.int64()),
        ("sum", pa.int64(), [None], None, pa.int64()),
        ("avg", pa.int64(), [1, 2], 1.5, pa.float64()),
        ("max", pa.int32(), [3, -5], 3, pa.int32()),
        ("var_pop", pa.int64(), [10**15, 10**15 + 2], 1.0, pa.float64()),
        (
            "sum",
            pa.decimal128(12, 2),
            [Decimal("9999999999.99")] * 3,
            Decimal("29999999999.97"),
            pa.decimal128(38, 2),
        ),
        (
            "avg",
            pa.decimal128(12, 2),
            [Decimal("0.10"), Decimal("0.20")],
            0.15,
            pa.float64(),
        ),
        (
            "min",
            pa.decimal128(12, 2),
            [Decimal("1.00"), Decimal("-2.50")],
            Decimal("-2.50"),
            pa.decimal128(12, 2),
        ),
        ("min", pa.string(), ["b", "ab", "é", None], "ab", pa.string()),
        ("max", pa.string(), ["b", "B", "é", ""], "é", pa.string()),
        ("max", pa.bool_(), [False, True], True, pa.bool_()),
        (
            "min",
            pa.timestamp("us"),
            [datetime(2026, 1, 2), datetime(2026, 1, 1)],
            datetime(2026, 1, 1),
            pa.timestamp("us"),
        ),
        ("count", pa.list_(pa.int64()), [(1, 2), None], 1, pa.int64()),
    ],
)
def test_an_aggregate_of_other_types_is(
    function: Function,
    kind: pa.DataType,
    values: list[Any],
    result: object,
    result_kind: pa.DataType,
) -> None:
    assert aggregate(function, kind, *values) == result
    assert call(function, kind).type == result_kind


def test_distinct_counts_each_value_once_and_no_null() -> None:
    counted = call("count", pa.float64(), distinct=True)
    assert counted.denote([(1.0, 5), (2.0, 1), (None, 3), (NAN, 2)]) == 3
    assert counted.denote([(None, 1)]) == 0
    weighted = [(1.0, 5), (2.5, 1), (None, 3), (1.0, 2)]
    assert call("sum", pa.float64(), distinct=True).denote(weighted) == 3.5
    assert call("avg", pa.float64(), distinct=True).denote(weighted) == 1.75
    assert call("sum", pa.float64(), distinct=True).denote([(None, 1)]) is None


@pytest.mark.parametrize(
    ("fraction", "values", "between", "at"),
    [
        (0.0, [3.0, 1.0, 2.0], 1.0, 1.0),
        (0.5, [3.0, 1.0, 2.0], 2.0, 2.0),
        (0.5, [10.0, 0.0], 5.0, 0.0),
        (0.3, [10.0, 0.0], 3.0, 0.0),
        (0.51, [10.0, 0.0], 5.1, 10.0),
        (0.25, [0.0, 1.0, 2.0, 3.0], 0.75, 0.0),
        (0.9, [0.0, 1.0, 2.0, 3.0, 4.0], 3.6, 4.0),
        (1.0, [3.0, NAN, 2.0], NAN, NAN),
        (0.5, [3.0, NAN, 2.0], 3.0, 3.0),
        (0.5, [INF, 1.0], INF, 1.0),
        (0.5, [INF, -INF], NAN, -INF),
        (0.5, [INF, INF], INF, INF),
        (0.5, [None, 4.0, None], 4.0, 4.0),
        (0.5, [None], None, None),
        (0.5, [], None, None),
        (0.07, [float(place) for place in range(1, 101)], 7.930000000000001, 8.0),
    ],
)
def test_a_percentile_of_floats_is(
    fraction: float, values: list[float | None], between: float | None, at: float | None
) -> None:
    argument = Expression.parse("x", pa.schema([("x", pa.float64())]))
    weighted = [(value, 1) for value in values]
    found = {
        function: AggregateCall(function=function, argument=argument, fraction=fraction).denote(
            weighted
        )
        for function in ("percentile", "percentile_disc")
    }
    assert repr(found["percentile"]) == repr(between)
    assert repr(found["percentile_disc"]) == repr(at)
    if fraction == 0.5:
        assert repr(aggregate("median", pa.float64(), *values)) == repr(between)


@pytest.mark.parametrize(
    ("kind", "values", "median", "at"),
    [
        (pa.int64(), [2**63 - 1, 1, 2**63 - 1], 2.0**63, 2**63 - 1),
        (
            pa.decimal128(12, 2),
            [Decimal("0.10"), Decimal("0.20")],
            0.15000000000000002,
            Decimal("0.10"),
        ),
        (
            pa.decimal128(38, 2),
            [Decimal("0.20"), Decimal("0.10")],
            0.15000000000000002,
            Decimal("0.10"),
        ),
        (pa.string(), ["b", "é", "a", None], None, "b"),
        (
            pa.timestamp("us"),
            [datetime(2026, 1, 2), datetime(2026, 1, 1)],
            None,
            datetime(2026, 1, 1),
        ),
    ],
)
def test_a_percentile_of_other_types_is(
    kind: pa.DataType, values: list[Any], median: float | None, at: object
) -> None:
    argument = Expression.parse("x", pa.schema([("x", kind)]))
    disc = AggregateCall(function="percentile_disc", argument=argument, fraction=0.5)
    assert disc.denote([(value, 1) for value in values]) == at
    assert disc.type == kind
    if median is not None:
        assert aggregate("median", kind, *values) == median
        assert call("median", kind).type == pa.float64()


def test_texts_are_in_order_and_as_many_as_hold() -> None:
    argument = Expression.parse("x", pa.schema([("x", pa.string())]))
    joined = AggregateCall(function="string_agg", argument=argument, separator=", ")
    once = AggregateCall(function="string_agg", argument=argument, separator="", distinct=True)
    values = [("b", 2), (None, 3), ("a", 1), ("", 1), ("é", 1)]
    assert joined.denote(values) == ", a, b, b, é"
    assert once.denote(values) == "abé"
    assert joined.denote([(None, 1)]) is None
    assert joined.type == pa.string()
    assert joined.label == "string_agg(x, ', ')"
    assert once.label == "string_agg(DISTINCT x, '')"


def test_a_sum_beyond_64_bits_is_refused() -> None:
    assert aggregate("sum", pa.int64(), 2**63 - 2, 1) == 2**63 - 1
    with pytest.raises(StreamError, match="a sum does not fit into 64 bits"):
        aggregate("sum", pa.int64(), 2**63 - 1, 1)


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 4)), min_size=1, max_size=6))
def test_multiplicities_are_weights(weighted: list[tuple[int, int]]) -> None:
    flat = [value for value, count in weighted for _ in range(count)]

    def of(function: Function) -> Any:
        return call(function, pa.int64()).denote(weighted)

    assert of("count") == len(flat)
    assert of("sum") == sum(flat)
    assert of("avg") == sum(flat) / len(flat)
    assert of("min") == min(flat)
    assert of("max") == max(flat)
    assert of("var_pop") == float(statistics.pvariance(map(Fraction, flat)))
    assert of("stddev_pop") == math.sqrt(of("var_pop"))
    assert of("median") == statistics.median(flat)
    if len(flat) > 1:
        assert of("var_samp") == float(statistics.variance(map(Fraction, flat)))
        assert of("stddev_samp") == math.sqrt(of("var_samp"))


SCHEMA = pa.schema([("key", pa.string()), ("value", pa.int64())])
S = Source(name="S", schema=SCHEMA)


def of(text: str) -> Expression:
    return Expression.parse(text, SCHEMA)


TOTAL = Aggregation(
    input=S,
    aggregates=(
        ("n", AggregateCall(function="count")),
        ("total", AggregateCall(function="sum", argument=of("value * 2"))),
    ),
)
PER_KEY = Aggregation(input=S, group_by=(("key", of("key")),), aggregates=TOTAL.aggregates)


def test_nothing_valid_gives_no_row() -> None:
    assert TOTAL.denote(LogicalStream()) == LogicalStream()
    found = TOTAL.denote(LogicalStream.of([(("a", 1), 1, 3), (("b", 2), 5, FOREVER)]))
    assert found == LogicalStream.of([((1, 2), 1, 3), ((1, 4), 5, FOREVER)])


def test_rows_that_are_all_null_are_counted_all_the_same() -> None:
    found = TOTAL.denote(LogicalStream.of([((None, None), 1, 3)]))
    assert found == LogicalStream.of([((1, None), 1, 3)])


def test_null_is_a_group_and_nan_is_one_group() -> None:
    schema = pa.schema([("k", pa.float64())])
    plan = Aggregation(
        input=Source(name="S", schema=schema),
        group_by=(("k", Expression.parse("k", schema)),),
        aggregates=(("n", AggregateCall(function="count")),),
    )
    rows = [None, None, NAN, -NAN, 0.0, -0.0]
    found = plan.denote(LogicalStream.of([((value,), 0, 1) for value in rows]))
    assert found.snapshot(0) == Counter({(None, 2): 1, (NAN, 2): 1, (0.0, 2): 1})


def test_a_group_may_be_computed() -> None:
    plan = Aggregation(input=S, group_by=(("sign", of("value > 0")),))
    rows = LogicalStream.of([(("a", 1), 0, 5), (("b", 2), 0, 5), (("c", -1), 0, 3)])
    assert plan.denote(rows) == LogicalStream.of([((True,), 0, 5), ((False,), 0, 3)])


@given(streams(SCHEMA))
def test_every_snapshot_is_aggregated_on_its_own(stream: PhysicalStream) -> None:
    rows = stream.meaning()
    total, per_key = TOTAL.denote(rows), PER_KEY.denote(rows)
    for instant in rows.change_points():
        snapshot = list(rows.snapshot(instant).elements())
        expected: dict[str | None, list[int | None]] = {}
        for key, value in snapshot:
            expected.setdefault(key, []).append(value)

        def sums(values: list[int | None]) -> tuple[int, int | None]:
            known = [value * 2 for value in values if value is not None]
            return len(values), sum(known) if known else None

        everything = [value for _, value in snapshot]
        assert total.snapshot(instant) == ({sums(everything): 1} if snapshot else {})
        assert per_key.snapshot(instant) == {
            (key, *sums(values)): 1 for key, values in expected.items()
        }


@given(streams(SCHEMA))
def test_results_fit_the_declared_types(stream: PhysicalStream) -> None:
    functions: list[Function] = ["count", "sum", "avg", "min", "max", "var_pop", "stddev_samp"]
    plan = Aggregation(
        input=S,
        aggregates=tuple(
            (name, AggregateCall(function=name, argument=of("value"))) for name in functions
        ),
    )
    rows_of(list(plan.denote(stream.meaning()).steps), plan.schema)
