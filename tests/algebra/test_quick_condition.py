from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.expressions.expression import Expression, _compute
from anabranch.expressions.quick_case import quick_case
from anabranch.expressions.quick_condition import quick_condition

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("small", pa.int8()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("j", pa.int64()),
        ("y", pa.float64()),
        ("t", pa.string()),
    ]
)
VALUES = {
    "i": st.sampled_from([None, 0, 1, -1, 5, 2**63 - 1, -(2**63)]),
    "small": st.sampled_from([None, 0, 5, -128, 127]),
    "x": st.sampled_from([None, 0.0, -0.0, 0.5, -1.5, 5.0, math.nan, math.inf, -math.inf, 1e300]),
    "s": st.sampled_from([None, "", "a", "A", "ab", "\u00fc", "\U0001f600", "5"]),
    "b": st.sampled_from([None, True, False]),
}
VALUES |= {"j": VALUES["i"], "y": VALUES["x"], "t": VALUES["s"]}
CONSTANTS = {
    "i": ["0", "5", "-1", "9223372036854775807"],
    "small": ["0", "5", "-128", "127"],
    "x": ["0", "0.5", "-1.5", "1e2", "5", "0.0"],
    "s": ["''", "'a'", "'ab'", "'\u00fc'", "'5'"],
}
OPERATORS = ["=", "<>", "<", "<=", ">", ">="]


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.integers(-1, 5 if depth else 2))
    if kind < 0:
        operator = draw(st.sampled_from(OPERATORS))
        return draw(st.sampled_from(["i {} j", "y {} x", "s {} t"])).format(operator)
    if kind <= 1:
        name = draw(st.sampled_from(sorted(CONSTANTS)))
        constant, operator = (
            draw(st.sampled_from(CONSTANTS[name])),
            draw(st.sampled_from(OPERATORS)),
        )
        sides = (constant, name) if draw(st.booleans()) else (name, constant)
        return f"{sides[0]} {operator} {sides[1]}"
    if kind == 2:
        name = draw(st.sampled_from([*VALUES, "b"]))
        return "b" if name == "b" else f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if kind == 3:
        return f"NOT ({draw(conditions(depth - 1))})"
    joins = draw(st.sampled_from(["AND", "OR"]))
    return f"({draw(conditions(depth - 1))}) {joins} ({draw(conditions(depth - 1))})"


@given(conditions(), st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=20))
def test_the_quick_way_is_the_same(text: str, rows: list[dict[str, object]]) -> None:
    expression = Expression.parse(text, SCHEMA)
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    if expression.is_column is not None:
        return
    (slowly,) = _compute([expression], batch, len(rows))
    condition = quick_condition(expression.sql, SCHEMA)
    assert expression.evaluate(batch, len(rows)).to_pylist() == slowly.to_pylist()
    if condition is not None:
        assert condition(batch).to_pylist() == slowly.to_pylist()


@pytest.mark.parametrize(
    ("text", "quick"),
    [
        ("x > 0.5", True),
        ("0.5 < x AND i = 3", True),
        ("b OR s = 'a'", True),
        ("s IS NOT NULL", True),
        ("x >= y", True),
        ("s < t", True),
        ("i > 0.5", False),
        ("i = '5'", False),
        ("small < 1000", False),
        ("i > small", False),
        ("x = 9007199254740993", False),
        ("i + 1 > 5", False),
    ],
)
def test_only_what_is_certain_is_done_quickly(text: str, quick: bool) -> None:
    assert (quick_condition(Expression.parse(text, SCHEMA).sql, SCHEMA) is not None) is quick


@st.composite
def cases(draw: st.DrawFn) -> str:
    values = st.sampled_from(draw(st.sampled_from(CASES)))
    whens = st.lists(conditions(1), min_size=1, max_size=3)
    text = " ".join(f"WHEN {each} THEN {draw(values)}" for each in draw(whens))
    otherwise = f" ELSE {draw(values)}" if draw(st.booleans()) else ""
    return f"CASE {text}{otherwise} END"


CASES = (["'BUY'", "'SELL'", "s", "t", "NULL"], ["x", "y", "0.5"], ["i", "j", "7", "x"])


@given(cases(), st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=20))
def test_a_quick_case_is_the_same(text: str, rows: list[dict[str, object]]) -> None:
    expression = Expression.parse(text, SCHEMA)
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    (slowly,) = _compute([expression], batch, len(rows))
    found = expression.evaluate(batch, len(rows))
    assert found.type == slowly.type
    assert repr(found.to_pylist()) == repr(slowly.to_pylist())


@pytest.mark.parametrize(
    ("text", "quick"),
    [
        ("CASE WHEN x > y THEN 'BUY' ELSE 'SELL' END", True),
        ("CASE WHEN x > 1 THEN s WHEN b THEN 'b' END", True),
        ("CASE i WHEN 1 THEN 'a' ELSE 'b' END", False),
        ("CASE WHEN i + 1 > 1 THEN 'a' ELSE 'b' END", False),
        ("CASE WHEN b THEN upper(s) ELSE s END", False),
    ],
)
def test_only_certain_cases_are_done_quickly(text: str, quick: bool) -> None:
    found = Expression.parse(text, SCHEMA)
    assert (quick_case(found.sql, SCHEMA, found.type) is not None) is quick
