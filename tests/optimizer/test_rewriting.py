"""Expressions are taken apart and moved to other columns."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import QueryError
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjoin, conjuncts, rebind, rename, substitute
from anabranch.model.payload import freeze, rows_of
from anabranch.testing import values

SCHEMA = pa.schema(
    [
        *(("k", pa.string()), ("v", pa.int64()), ("x", pa.float64()), ("b", pa.bool_())),
        *(("my col", pa.int64()), ("st", pa.struct([("a", pa.int64())]))),
    ]
)
OTHER = pa.schema(
    [
        *(("z", pa.int64()), ("V", pa.int64()), ("k", pa.string()), ("x", pa.float64())),
        *(("b", pa.bool_()), ("st2", pa.struct([("a", pa.int64())]))),
    ]
)
NAMES = {"v": "V", "my col": "z", "st": "st2"}
TEXTS = [
    *("v * 2 > 5 AND k = 'a'", "CAST(v AS STRING) = k", "`my col` - v", "st.a > 3", "v / 2 > 3"),
    *("TRY_CAST(k AS INT) > v", "v IN (1, 2) AND v IS NOT NULL OR x = 2.0", "-v", "NOT b"),
    *("CASE WHEN v = 1 THEN k ELSE 'v' END", "k LIKE 'v%' OR k = '`v`'", "v BETWEEN 1 AND x"),
]


def of(text: str, schema: pa.Schema = SCHEMA) -> Expression:
    return Expression.parse(text, schema)


@pytest.mark.parametrize("text", TEXTS)
def test_a_renamed_expression_is_as_if_it_was_written_so(text: str) -> None:
    found = rename(of(text), NAMES, OTHER)
    again = of(found.sql, OTHER)
    assert found == again
    assert (found.type, found.columns, found.is_column) == (of(text).type, again.columns, None)
    assert found.duckdb_sql == again.duckdb_sql
    back = rename(found, {new: old for old, new in NAMES.items()}, SCHEMA)
    assert back == of(text)


@pytest.mark.parametrize("text", TEXTS)
def test_an_expression_is_bound_to_other_columns_of_the_same_names(text: str) -> None:
    wider = pa.schema([("extra", pa.int64()), *SCHEMA])
    found = rebind(of(text), wider)
    assert found == of(text, wider)
    assert found.duckdb_sql == of(text, wider).duckdb_sql
    assert rebind(found, SCHEMA) == of(text)


def test_a_column_that_is_missing_is_named() -> None:
    with pytest.raises(QueryError, match="'v'"):
        rebind(of("v > 1"), OTHER.remove(1))


def test_types_may_change_with_the_columns() -> None:
    floats = pa.schema([("v", pa.float64())])
    assert rebind(of("v + 1"), floats).type == pa.float64()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("v = 1", ["v = 1"]),
        ("v = 1 AND (x = 2 OR x = 3) AND b", ["v = 1", "x = 2 OR x = 3", "b"]),
        ("NOT (v = 1 AND x = 2)", ["NOT (v = 1 AND x = 2)"]),
        ("(v = 1 AND (b AND k = 'a AND b'))", ["v = 1", "b", "k = 'a AND b'"]),
        ("v BETWEEN 1 AND 2 AND k = 'a'", ["v BETWEEN 1 AND 2", "k = 'a'"]),
        ("v = 1 OR x = 1 AND b", ["v = 1 OR x = 1 AND b"]),
    ],
)
def test_a_conjunction_is_taken_apart_and_put_together(text: str, parts: list[str]) -> None:
    found = conjuncts(of(text))
    assert [part.sql for part in found] == parts
    assert conjuncts(conjoin(found)) == found


def test_what_is_said_twice_is_said_once() -> None:
    assert conjoin([of("v = 1"), of("b"), of("v = 1")]).sql == "v = 1 AND b"
    with pytest.raises(ValueError, match="at least one"):
        conjoin([])


INNER = {
    "a": "v - 1",
    "b": "v + `my col`",
    "c": "x",
    "d": "b OR v = 1",
    "e": "CASE WHEN v > 0 THEN k END",
    "f": "-1",
    "g": "st",
}
OUTER = [
    *("a * 2", "a - b", "-a", "a BETWEEN f AND b", "b IS NULL", "NOT d AND a > 1", "d OR a = f"),
    *("e || 'x'", "e = 'a' AND c > 1", "g.a + a", "a IN (1, 2)", "CASE WHEN d THEN a ELSE b END"),
    *("a - f", "c > 1 AND d"),
]


@given(st.data(), st.sampled_from(OUTER))
def test_p_after_f_gives_what_p_gives_of_f(data: st.DataObject, text: str) -> None:
    columns = {name: of(each) for name, each in INNER.items()}
    schema = pa.schema([(name, each.type) for name, each in columns.items()])
    composed = substitute(of(text, schema), columns, SCHEMA)
    payload = st.tuples(*(values(field.type) for field in SCHEMA)).map(freeze)
    rows = rows_of(data.draw(st.lists(payload, min_size=1, max_size=4)), SCHEMA)
    image = pa.RecordBatch.from_arrays(
        [each.evaluate(rows, len(rows)) for each in columns.values()], schema=schema
    )
    expected = of(text, schema).evaluate(image, len(rows))
    assert freeze(composed.evaluate(rows, len(rows)).to_pylist()) == freeze(expected.to_pylist())


def test_text_that_looks_like_a_column_is_left_alone() -> None:
    found = rename(of("k = 'v' AND v = 1"), {"v": "V"}, OTHER)
    assert found.sql == "k = 'v' AND V = 1"
