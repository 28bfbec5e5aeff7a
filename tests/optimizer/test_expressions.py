"""What may fail, and what is decided already."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjuncts
from anabranch.model.payload import freeze, rows_of
from anabranch.optimizer.failing import may_fail
from anabranch.optimizer.simplify import simplified
from anabranch.testing import values

SCHEMA = pa.schema(
    [
        *(("k", pa.string()), ("v", pa.int64()), ("x", pa.float64()), ("d", pa.date32())),
        *(("i", pa.int32()), ("q", pa.decimal128(10, 2)), ("t", pa.timestamp("us", tz="UTC"))),
        ("b", pa.bool_()),
    ]
)
SAFE = [
    *("v > 1", "x IS NOT NULL", "k = 'a' OR v <= 2", "x * 2 > 80", "x + i > v", "v % 2 = 0"),
    *("v / 2 > 1", "k LIKE 'a%'", "d > '2024-01-01'", "d = d", "v IN (1, 2)", "v BETWEEN 1 AND x"),
    *("CASE WHEN v = 1 THEN x ELSE 2.0 END > 1", "coalesce(v, 0) = 1", "upper(k) = 'A'"),
    *("CAST(v AS STRING) = 'a'", "CAST(i AS BIGINT) = v", "q > 5", "t > '2024-01-01'", "b"),
    *("NOT b", "k <=> 'a'", "x > 1.5", "v > 1.5", "TRY_CAST(k AS INT) = 1", "length(k) > 2"),
]
RISKY = [
    *("v + 1 = 5", "x / v > 1", "CAST(k AS INT) = 1", "-v = 1", "q * 2 > 1", "v * i > 1"),
    *("CAST(x AS INT) = 1", "v % i = 0", "CAST(v AS INT) = 1", "1 / x > 1"),
    *("CAST(v AS DECIMAL(5, 2)) > 1", "x + i > 0 AND v * v > 1", "b AND 1 / v > 0"),
]


def of(text: str) -> Expression:
    return Expression.parse(text, SCHEMA)


@pytest.mark.parametrize("text", SAFE)
def test_some_expressions_have_a_value_for_every_row(text: str) -> None:
    assert not may_fail(of(text))


def test_functions_say_themselves_whether_they_fail() -> None:
    for text in ("sqrt(x) > 1", "year(d) = 2024", "try_divide(v, 0) > 1", "isnan(x)"):
        assert not may_fail(of(text))


def test_what_only_spark_evaluates_may_fail() -> None:
    strange = Expression.parse("soundex(k) = 'a' AND v = 1", SCHEMA, lambda *_: pa.bool_())
    assert strange.spark_only
    assert may_fail(strange)
    assert [part.sql for part in conjuncts(strange)] == ["SOUNDEX(k) = 'a'", "v = 1"]
    unknown = Expression.parse("soundex(k) AND v = 1", SCHEMA, lambda *_: pa.bool_())
    assert conjuncts(unknown) == (unknown,)
    assert simplified(unknown) == unknown


@pytest.mark.parametrize("text", RISKY)
def test_what_is_not_known_to_be_safe_may_fail(text: str) -> None:
    assert may_fail(of(text))


@given(st.data(), st.sampled_from(SAFE))
def test_what_is_said_to_be_safe_does_not_fail(data: st.DataObject, text: str) -> None:
    extremes = {
        "v": st.sampled_from([2**63 - 1, -(2**63), 0]),
        "i": st.sampled_from([2**31 - 1, -(2**31), 0]),
        "x": st.sampled_from([float("inf"), float("nan"), 1e308, -0.0]),
        "k": st.sampled_from(["", "12", "99999999999999999999"]),
    }
    row = st.tuples(*(values(field.type) | extremes.get(field.name, st.none()) for field in SCHEMA))
    rows = rows_of(data.draw(st.lists(row.map(freeze), min_size=1, max_size=4)), SCHEMA)
    of(text).evaluate(rows, len(rows))


CONDITIONS = {
    "1 < 2 AND (x > 40 + 2 OR FALSE)": "x > 42",
    "x > 1 AND 1 > 2": "FALSE",
    "NOT NOT v = 1": "v = 1",
    "v = 1 OR TRUE": "TRUE",
    "NOT (1 = 2) AND b": "b",
    "v = 1 AND v = 1": "v = 1",
    "(v = 1 OR 1 = 2) AND (v = 2 OR 1 = 1)": "v = 1",
    "v = 1 - 3": "v = -2",
    "v = 1 / 0": "v = 1 / 0",
    "v + (1 + 2) > 3": "v + (1 + 2) > 3",
    "v = 1 AND (v = 2 AND (1 = 1 OR k = 'a'))": "v = 1 AND v = 2",
    "b OR FALSE": "b OR FALSE",
    "1 = 1": "TRUE",
    "1 = NULL": "FALSE",
}


@pytest.mark.parametrize("text", sorted(CONDITIONS))
def test_what_is_decided_is_left_out(text: str) -> None:
    found = simplified(of(text))
    assert found.sql == CONDITIONS[text]
    assert simplified(found) == found


@given(st.data(), st.sampled_from(sorted(set(CONDITIONS) - {"v = 1 / 0"})))
def test_a_simpler_condition_is_true_for_the_same_rows(data: st.DataObject, text: str) -> None:
    row = st.tuples(*(values(field.type) for field in SCHEMA)).map(freeze)
    rows = rows_of(data.draw(st.lists(row, min_size=1, max_size=4)), SCHEMA)
    before, after = of(text), simplified(of(text))
    verdicts = [
        [verdict is True for verdict in each.evaluate(rows, len(rows)).to_pylist()]
        for each in (before, after)
    ]
    assert verdicts[0] == verdicts[1]
