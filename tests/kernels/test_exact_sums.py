"""Sums, averages and variances are exact: rounded once, whatever order, batches and shards."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anabranch.aggregates.call import AggregateCall, Function
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.errors import StreamError
from anabranch.expressions.expression import Expression
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.sum_lanes import SumLane
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.numbers.digits import SQUARES, SUMS
from anabranch.model.numbers.exact_numbers import nearest
from anabranch.testing import assert_agrees
from anabranch.testing.physical import elements_of
from tests.kernels.hard_floats import ALL_SUMS, exact_steps, floats, hard_streams
from tests.kernels.plans import SCHEMA, SOURCE, aggregate

pytestmark = pytest.mark.usefixtures("eagerness")


def rows(values: Sequence[float | None], key: str = "a", end: int = 9) -> EventBatch:
    """One event per value, from 0 on."""
    payload = pa.RecordBatch.from_arrays(
        [
            pa.array([key] * len(values), pa.string()),
            pa.array([1] * len(values), pa.int64()),
            pa.array(values, pa.float64()),
        ],
        schema=SCHEMA,
    )
    start = np.zeros(len(values), np.int64)
    return EventBatch(payload, start, start, start + end)


def withdrawn(batch: EventBatch) -> EventBatch:
    return batch.with_ends(batch.new_end, batch.start)


def outcome(node: Node, batches: Sequence[EventBatch], at: int = 3) -> Any:
    """The row of the only group at an instant, after all batches."""
    runner = LocalRunner(node)
    found = LogicalStream.of_batches([runner.step({"S": batch}) for batch in batches]).snapshot(at)
    ((payload, count),) = found.items()
    assert count == 1
    return payload


def bits(value: float) -> bytes:
    return struct.pack("d", value)


SUM = aggregate(SOURCE, (), "sx")


@pytest.mark.parametrize(
    ("came", "left", "expected"),
    [
        ([1e16, 1.0], [1e16], 1.0),
        ([1e308, 1e308], [1e308], 1e308),
        ([0.1, 0.2, 0.3], [0.1, 0.2], 0.3),
        ([1e300, 1e-300, -1e300], [], 1e-300),
        ([5e-324, 1e300, 5e-324], [1e300], 1e-323),
        ([-0.0, -0.0], [], 0.0),
        ([math.inf, 1.5, math.nan], [math.inf, math.nan], 1.5),
        ([2.0**60] * 9, [2.0**60] * 8, 2.0**60),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_what_leaves_leaves_nothing_behind(
    came: list[float], left: list[float], expected: float, together: bool
) -> None:
    batches = [rows(came), withdrawn(rows(left))]
    if not together:
        batches = [rows([value]) for value in came] + [withdrawn(rows([each])) for each in left]
    (found,) = outcome(SUM, batches)
    assert bits(found) == bits(expected)


def test_a_sum_may_leave_the_range_of_floats_and_come_back() -> None:
    runner = LocalRunner(SUM)
    outputs = [runner.step({"S": rows([1e308, 1e308])})]
    assert LogicalStream.of_batches(outputs).snapshot(3) == Counter({(math.inf,): 1})
    outputs.append(runner.step({"S": rows([-1e308])}))
    assert LogicalStream.of_batches(outputs).snapshot(3) == Counter({(1e308,): 1})


@given(value=floats.filter(math.isfinite), count=st.integers(2, 7), alone=st.booleans())
@example(value=0.1, count=3, alone=False)
@example(value=1e200, count=3, alone=True)
def test_equal_values_have_no_variance(value: float, count: int, alone: bool) -> None:
    node = aggregate(SOURCE, (), "vs", "sp", "ax")
    batches = [rows([value])] * count if alone else [rows([value] * count)]
    assert outcome(node, batches) == (0.0, 0.0, value + 0.0)


def test_cents_in_many_groups_do_not_depend_on_batches() -> None:
    random = np.random.default_rng(3)
    count = 8_000
    payload = pa.RecordBatch.from_arrays(
        [
            pa.array([f"g{number}" for number in random.integers(0, 400, count)]),
            pa.array(random.integers(-50, 50, count)),
            pa.array(random.integers(1, 100_000, count) / 100),
        ],
        schema=SCHEMA,
    )
    start = random.integers(0, 5, count)
    whole = EventBatch(payload, start, start, start + random.integers(1, 9, count))
    node = aggregate(SOURCE, ("k",), *ALL_SUMS)
    once = LogicalStream.of_batches([LocalRunner(node).step({"S": whole})])
    runner = LocalRunner(node)
    cuts = np.array_split(random.permutation(count), 8)
    parts = [runner.step({"S": whole.take(rows)}) for rows in cuts]
    assert once == LogicalStream.of_batches(parts)
    exact: dict[str, Fraction] = {}
    for key, _, value in payloads_at(whole, 4):
        exact[key] = exact.get(key, Fraction(0)) + Fraction(value)
    found = {payload[0]: payload[1] for payload in once.snapshot(4)}
    assert found == {key: nearest(total) for key, total in exact.items()}


def payloads_at(batch: EventBatch, instant: int) -> list[tuple[Any, ...]]:
    return [
        element.payload
        for element in elements_of(batch)
        if element.start <= instant < element.new_end
    ]


def test_large_digits_are_relieved_while_they_are_added_up() -> None:
    batch = rows([1e12, 3e12, 1e16, 0.1] * 3_000)
    exact = sum(map(Fraction, (1e12, 3e12, 1e16, 0.1)), Fraction(0)) * 3_000
    for some in ([batch], [batch.take(np.arange(0, 7)), batch.take(np.arange(7, 12_000))]):
        assert outcome(SUM, some) == (nearest(exact),)
    assert outcome(SUM, [batch, withdrawn(batch), rows([0.1])]) == (0.1,)


@settings(deadline=None)
@given(
    batches=hard_streams(),
    names=st.lists(st.sampled_from(ALL_SUMS), min_size=1, max_size=3, unique=True),
    by=st.sampled_from([(), ("k",), ("v",)]),
    sample_rows=st.sampled_from([1, 2, 4_096]),
)
def test_drawn_streams_give_what_rational_numbers_give(
    batches: list[EventBatch], names: list[str], by: tuple[str, ...], sample_rows: int
) -> None:
    with patch.object(columns, "SAMPLE_ROWS", sample_rows):
        assert_agrees(aggregate(SOURCE, by, *names), batches)


@settings(deadline=None)
@given(
    batches=hard_streams(),
    names=st.lists(st.sampled_from(ALL_SUMS), min_size=1, max_size=3, unique=True),
)
def test_results_are_the_same_elements_for_any_batches(
    batches: list[EventBatch], names: list[str]
) -> None:
    node = aggregate(Source(name="S", schema=SCHEMA), ("k",), *names)
    whole = EventBatch.concat(batches)
    once = LogicalStream.of_batches([LocalRunner(node).step({"S": whole})])
    runner = LocalRunner(node)
    several = LogicalStream.of_batches([runner.step({"S": batch}) for batch in batches])
    assert exact_steps(once) == exact_steps(several)


def test_decimals_and_large_integers_have_exact_averages_and_variances() -> None:
    schema = pa.schema([("d", pa.decimal128(38, 6)), ("i", pa.int64()), ("s", pa.int32())])
    source = Source(name="S", schema=schema)
    values = [
        (Decimal("12345678901234567890123456789012.123456"), 2**62, 7),
        (Decimal("-0.000001"), 2**62 + 1, -(2**31)),
        (Decimal("0.3"), -5, 2**31 - 1),
    ]
    functions: tuple[Function, ...] = ("avg", "var_pop", "stddev_samp")
    aggregates = tuple(
        (
            f"{function}{name}",
            AggregateCall(function=function, argument=Expression.parse(name, schema)),
        )
        for function in functions
        for name in schema.names
    )
    node = Aggregation(input=source, aggregates=aggregates)
    payload = pa.RecordBatch.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in values * 2], schema=schema
    )
    start = np.zeros(len(payload), np.int64)
    batch = EventBatch(payload, start, start, start + np.array([9, 8, 7, 6, 5, 4]))
    assert_agrees(node, [batch])


@pytest.mark.parametrize("digits", [18, 19, 38])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_a_sum_of_decimals_is_right_or_refused(digits: int, count: int) -> None:
    kind = pa.decimal128(digits, 0)
    schema = pa.schema([("d", kind)])
    largest = 10**digits - 1
    payload = pa.RecordBatch.from_arrays(
        [pa.array([Decimal(largest)] * count + [Decimal(-largest)], kind)], schema=schema
    )
    start = np.zeros(len(payload), np.int64)
    # The negative value ends at 5: until then one of the others does not count.
    ends = np.array([9] * count + [5])
    batch = EventBatch(payload, start, start, ends)
    call = AggregateCall(function="sum", argument=Expression.parse("d", schema))
    node = Aggregation(input=Source(name="S", schema=schema), aggregates=(("n", call),))
    if count * largest < 10**38:
        assert_agrees(node, [batch])
        return
    with pytest.raises(StreamError, match="does not fit into DECIMAL"):
        LocalRunner(node).step({"S": batch})


@given(st.lists(floats | st.just(math.nan), min_size=1, max_size=20), st.integers(1, 9))
def test_compiled_loops_do_what_the_others_do(values: list[float], divisor: int) -> None:
    numbers, counts = np.array(values), np.full(len(values), divisor)
    for lane, name in ((SumLane("t", SUMS), "split"), (SumLane("q", SQUARES), "split_squares")):
        found = []
        for many in (0, 10**9):
            with patch.object(columns, "is_compiled", lambda _, many=many: not many):
                lanes = lane.carried(getattr(lane, name)(numbers))
                digits = {each: part.tolist() for each, part in lanes.items()}
                rounded = [lane.rounded(lanes), lane.rounded(lanes, counts)]
                found.append((digits, [part.tobytes() for part in rounded]))
        assert found[0] == found[1]
