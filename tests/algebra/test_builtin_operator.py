"""Built-in aggregates as modules: many windows at once mean what each of them means alone."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.aggregates import table
from anabranch.aggregates.call import AggregateCall, Function
from anabranch.algebra.modules.apply_operator import ApplyOperator, Call
from anabranch.algebra.modules.axis_window import tumbling
from anabranch.algebra.modules.builtin import VALUE, builtin_operator
from anabranch.algebra.modules.user_operator import WINDOW
from anabranch.algebra.source import Source
from anabranch.errors import OperatorError, PlanError, StreamError
from anabranch.expressions.expression import Expression
from anabranch.model.payload import freeze
from anabranch.model.time import Duration
from anabranch.testing.arrow_values import arrow_types, arrow_values

FUNCTIONS: Final[tuple[Function, ...]] = tuple(table.FUNCTIONS)
NAN, INF = math.nan, math.inf


def call_of(
    function: Function, kind: pa.DataType, *, distinct: bool = False, fraction: float = 0.5
) -> AggregateCall:
    if function in ("max_by", "min_by"):
        kind = pa.struct([("by", kind), ("value", kind)])
    return AggregateCall(
        function=function,
        argument=Expression.column("x", pa.schema([("x", kind)])),
        distinct=distinct,
        fraction=fraction if function in ("percentile", "percentile_disc") else None,
        separator=", " if function == "string_agg" else None,
    )


def by_module(call: AggregateCall, windows: Sequence[int], values: pa.Array) -> dict[int, Any]:
    module, arguments = builtin_operator(call)
    assert [each.type for each in arguments] == [kind for _, kind in module.takes]
    columns = {WINDOW: pa.array(windows, pa.int64())}
    code = pickle.loads(pickle.dumps(module.code))
    found = code.compute_frame(pa.table(columns | ({VALUE: values} if arguments else {})))
    assert found.column_names == [WINDOW, *module.gives.names]
    assert found.column(1).type == module.gives.field(0).type == call.type
    return dict(zip(found.column(0).to_pylist(), found.column(1).to_pylist()))


def by_definition(
    call: AggregateCall, windows: Sequence[int], values: Sequence[Any]
) -> dict[int, Any]:
    return {
        each: call.denote([(value, 1) for at, value in zip(windows, values) if at == each])
        for each in sorted(set(windows))
    }


def assert_same(found: dict[int, Any], expected: dict[int, Any]) -> None:
    assert list(found) == list(expected)
    for window, value in expected.items():
        if isinstance(value, float) and math.isnan(value):
            assert math.isnan(found[window]), window
        else:
            assert freeze(found[window]) == freeze(value), window


@st.composite
def calls(draw: st.DrawFn) -> AggregateCall:
    """An aggregate that goes with the type of its argument."""
    kind = draw(arrow_types(nested=False) | st.just(pa.null()))
    while True:
        function = draw(st.sampled_from(FUNCTIONS))
        fraction = draw(st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]))
        distinct = draw(st.booleans()) and function in ("count", "sum", "avg", "string_agg")
        try:
            return call_of(function, kind, distinct=distinct, fraction=fraction)
        except PlanError:
            continue


@st.composite
def columns(draw: st.DrawFn, kind: pa.DataType) -> tuple[list[int], list[Any]]:
    windows = st.sampled_from([7, 3, 0, -2, 2**40])
    rows = draw(st.lists(st.tuples(windows, arrow_values(kind)), max_size=20))
    return [window for window, _ in rows], [value for _, value in rows]


@given(st.data())
def test_many_windows_mean_what_each_means_alone(data: st.DataObject) -> None:
    call = data.draw(calls())
    assert call.argument is not None
    windows, drawn = data.draw(columns(call.argument.type))
    values = pa.array(drawn, call.argument.type)
    present = [_once(freeze(value)) for value in values.to_pylist()]
    try:
        expected = by_definition(call, windows, present)
        pa.array(list(expected.values()), call.type)
    except (StreamError, pa.ArrowInvalid):
        with pytest.raises(StreamError, match="does not fit into"):
            by_module(call, windows, values)
    else:
        assert_same(by_module(call, windows, values), expected)


def _once(value: Any) -> Any:
    """One NaN for all, so that a set holds it once."""
    return NAN if isinstance(value, float) and math.isnan(value) else value


@given(
    st.sampled_from(["sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp"]),
    st.lists(st.tuples(st.integers(0, 3), st.floats()), max_size=30),
    st.randoms(),
)
def test_floats_are_summed_up_exactly_in_any_order(
    function: Function, rows: list[tuple[int, float]], random: Any
) -> None:
    call = call_of(function, pa.float64())
    windows, values = [row[0] for row in rows], [row[1] for row in rows]
    expected = by_definition(call, windows, values)
    assert_same(by_module(call, windows, pa.array(values, pa.float64())), expected)
    random.shuffle(rows)
    again = pa.array([row[1] for row in rows], pa.float64())
    assert_same(by_module(call, [row[0] for row in rows], again), expected)


@given(
    st.sampled_from(["sum", "avg", "var_pop", "stddev_samp", "median", "count", "min"]),
    st.lists(st.tuples(st.integers(0, 2), st.integers(-(2**63), 2**63 - 1)), max_size=12),
    st.sampled_from([pa.int64(), pa.decimal128(38, 0)]),
)
def test_large_whole_numbers_lose_nothing(
    function: Function, rows: list[tuple[int, int]], kind: pa.DataType
) -> None:
    call = call_of(function, kind)
    windows = [row[0] for row in rows]
    values = pa.array([Decimal(n) if pa.types.is_decimal(kind) else n for _, n in rows], kind)
    try:
        expected = by_definition(call, windows, values.to_pylist())
    except StreamError:
        with pytest.raises(StreamError, match="a sum does not fit into BIGINT"):
            by_module(call, windows, values)
    else:
        assert_same(by_module(call, windows, values), expected)


@pytest.mark.parametrize(
    ("function", "values", "result"),
    [
        ("sum", [1e16, 1.0, -1e16], 1.0),
        ("sum", [1e308, 1e308], INF),
        ("sum", [INF, -INF, 1.0], NAN),
        ("avg", [-INF, 5.0, None], -INF),
        ("min", [NAN, 2.0], 2.0),
        ("min", [NAN, NAN], NAN),
        ("max", [2.0, NAN, INF], NAN),
        ("var_pop", [5.0], 0.0),
        ("var_pop", [NAN], NAN),
        ("var_pop", [0.1] * 7, 0.0),
        ("var_samp", [NAN], None),
        ("var_samp", [1e200, 2e200], INF),
        ("stddev_pop", [1e9 + 1, 1e9 + 3], 1.0),
        ("median", [1.0, None, 4.0], 2.5),
        ("count", [None, NAN], 1),
        ("sum", [None], None),
    ],
)
def test_edges_are_as_in_every_other_aggregation(
    function: Function, values: list[float | None], result: float | None
) -> None:
    found = by_module(call_of(function, pa.float64()), [4] * len(values), pa.array(values))
    assert repr(found) == repr({4: result})


def test_texts_are_joined_in_their_own_order() -> None:
    values = pa.array(["b", "a", None, "é", "a"])
    windows = [1, 1, 1, 1, 1]
    assert by_module(call_of("string_agg", pa.string()), windows, values) == {1: "a, a, b, é"}
    once = call_of("string_agg", pa.string(), distinct=True)
    assert by_module(once, windows, values) == {1: "a, b, é"}


def test_a_count_of_nested_values_counts_equal_ones_once() -> None:
    kind = pa.list_(pa.int64())
    call = call_of("count", kind, distinct=True)
    values = pa.array([[1], [1], None, [2, None], [2, None], []], kind)
    assert by_module(call, [0, 0, 0, 0, 1, 1], values) == {0: 2, 1: 2}


def test_a_count_of_rows_has_no_argument() -> None:
    call = AggregateCall(function="count")
    module, arguments = builtin_operator(call)
    assert arguments == ()
    assert module.takes == ()
    assert by_module(call, [3, 1, 3], pa.nulls(3)) == {1: 1, 3: 2}


def test_a_table_in_pieces_is_one_table() -> None:
    module, _ = builtin_operator(call_of("sum", pa.int64()))
    piece = pa.table({WINDOW: pa.array([1, 2]), VALUE: pa.array([5, 6])})
    found = module.code.compute_frame(pa.concat_tables([piece, piece]))
    assert found.to_pydict() == {WINDOW: [1, 2], "sum": [10, 12]}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_window_without_events_counts_nothing(function: Function) -> None:
    call = call_of(function, pa.string() if function == "string_agg" else pa.int64())
    module, _ = builtin_operator(call)
    assert module.on_empty == (call.denote([]),)
    nothing = () if "collect" in function else 0 if "count" in function else None
    assert module.on_empty == (nothing,)
    assert len(pickle.dumps(module.code)) < 500


BIDS = Source(name="Bid", schema=pa.schema([("item", pa.int64()), ("price", pa.int64())]))


def over_bids(*texts: tuple[Function, str | None], **options: Any) -> ApplyOperator:
    calls = []
    for function, text in texts:
        argument = None if text is None else Expression.parse(text, BIDS.schema)
        fraction = 0.9 if function == "percentile" else None
        call = AggregateCall(function=function, argument=argument, fraction=fraction)
        module, arguments = builtin_operator(call)
        calls.append(Call(module, arguments, (call.label,)))
    group = (("item", Expression.column("item", BIDS.schema)),)
    return ApplyOperator.over(BIDS, calls=tuple(calls), group_by=group, **options)


def test_aggregates_answer_together_for_windows_of_groups() -> None:
    node = over_bids(("count", None), ("max", "price"), window=tumbling(Duration(10)), empty=True)
    events = [((1, 5), 0, 1), ((1, 7), 3, 4), ((2, 9), 4, 12), ((1, None), 33, 34)]
    assert sorted(node.apply(events, stable=20)) == [
        ((1, 0, None), 10, 20),
        ((1, 0, None), 20, 30),
        ((1, 1, None), 30, 40),
        ((1, 2, 7), 0, 10),
        ((2, 1, 9), 0, 10),
        ((2, 1, 9), 10, 20),
    ]


def test_a_plan_shows_them_as_queries_do() -> None:
    node = over_bids(("count", None), ("percentile", "price"), window=tumbling(Duration(10)))
    assert node.label == (
        "ApplyModule count(*), percentile(price, fraction => 0.9) AS percentile(price, 0.9) "
        "per TUMBLING 10 by item"
    )


def test_a_sum_that_is_too_large_names_the_window() -> None:
    node = over_bids(("sum", "price"), window=tumbling(Duration(10)))
    events = [((1, 2**62), 0, 1), ((1, 2**62), 3, 4)]
    with pytest.raises(OperatorError, match="does not fit into BIGINT"):
        node.apply(events)
