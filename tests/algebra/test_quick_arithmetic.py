from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import QueryError, StreamError
from anabranch.expressions.expression import Expression, _compute
from anabranch.expressions.quick_arithmetic import quick_arithmetic
from anabranch.expressions.quick_array import quick_array

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("j", pa.int64()),
        ("m", pa.int32()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("f", pa.float32()),
        ("s", pa.string()),
    ]
)
LONG = st.sampled_from([None, 0, 1, -1, 7, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)])
SHORT = st.sampled_from([None, 0, 1, -1, 7, 2**31 - 1, -(2**31)])
DOUBLE = st.sampled_from([None, 0.0, -0.0, 0.1, -1.5, 7.0, math.nan, math.inf, -math.inf, 1e308])
VALUES = {
    "i": LONG,
    "j": LONG,
    "m": SHORT,
    "n": SHORT,
    "x": DOUBLE,
    "y": DOUBLE,
    "f": st.sampled_from([None, 0.5, -1.5]),
    "s": st.sampled_from([None, "", "a"]),
}
TERMS = ["i", "j", "m", "n", "x", "y", "f", "0", "1", "-1", "2147483647", "3000000000", "0.1"]
TERMS += ["1e2", "-2.5", "9223372036854775807", "0.12345678901234567", "NULL"]
ROWS = st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=8)


@st.composite
def sums(draw: st.DrawFn, depth: int = 2) -> str:
    if not depth or draw(st.booleans()):
        return draw(st.sampled_from(TERMS))
    left, right = draw(sums(depth - 1)), draw(sums(depth - 1))
    return f"({left}) {draw(st.sampled_from('+-*'))} ({right})"


def values(expression: Expression, batch: pa.RecordBatch, *, quickly: bool) -> str:
    """The values with their type, or how it fails."""
    try:
        if quickly:
            found = expression.evaluate(batch, len(batch))
        else:
            (found,) = _compute([expression], batch, len(batch))
    except StreamError as error:
        return f"{error.what}: {error.where}"
    return f"{found.type}: {found.to_pylist()}"


@given(sums(), ROWS)
def test_the_quick_way_is_the_same(text: str, rows: list[dict[str, object]]) -> None:
    try:
        expression = Expression.parse(text, SCHEMA)
    except QueryError:  # a constant that is too large, for instance
        return
    if expression.is_column is not None or expression.constant is not None:
        return
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    assert values(expression, batch, quickly=True) == values(expression, batch, quickly=False)


@pytest.mark.parametrize(
    ("text", "quick"),
    [
        ("i + 1", True),
        ("2 - m * n", True),
        ("(x + 0.5) * y", True),
        ("i * 3000000000", True),
        ("m + 3000000000", False),
        ("i + (7 + 1)", False),
        ("i + x", False),
        ("f * 2", False),
        ("x / 2", False),
        ("x * 9007199254740993", False),
        ("length(s) + 1", False),
    ],
)
def test_only_what_is_certain_is_done_quickly(text: str, quick: bool) -> None:
    found = Expression.parse(text, SCHEMA)
    assert (quick_arithmetic(found.sql, SCHEMA, found.type) is not None) is quick


def test_a_number_that_is_too_large_fails_as_ever() -> None:
    expression = Expression.parse("i + 1", SCHEMA)
    batch = pa.RecordBatch.from_pylist([{"i": 5}, {"i": 2**63 - 1}], SCHEMA)
    with pytest.raises(StreamError, match="cannot evaluate i \\+ 1"):
        expression.evaluate(batch, 2)


@given(st.lists(st.sampled_from(["i", "j", "x", "s", "m", "1"]), min_size=1, max_size=3), ROWS)
def test_a_quick_array_is_the_same(names: list[str], rows: list[dict[str, object]]) -> None:
    try:
        expression = Expression.parse(f"array({', '.join(names)})", SCHEMA)
    except QueryError:  # types that do not fit
        return
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    if expression.columns:
        assert values(expression, batch, quickly=True) == values(expression, batch, quickly=False)


def test_only_arrays_of_columns_of_one_type_are_done_quickly() -> None:
    for text, quick in (("array(i, j)", True), ("array(s)", True), ("array(i, 1)", False)):
        found = Expression.parse(text, SCHEMA)
        assert (quick_array(found.sql, SCHEMA, found.type) is not None) is quick
