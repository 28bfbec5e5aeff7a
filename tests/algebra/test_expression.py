"""Scalar SQL: what it gives, what it refuses, and that it is stable."""

from __future__ import annotations

import os
import pickle
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from anabranch.errors import QueryError, StreamError
from anabranch.expressions.evaluation import select
from anabranch.expressions.expression import Expression, evaluate_all
from anabranch.expressions.plain_type import plain_type
from anabranch.expressions.refusals import UNSTABLE
from anabranch.model.batch import no_rows

SCHEMA = pa.schema(
    [
        ("itemID", pa.int64()),
        ("price", pa.float64()),
        ("my col", pa.string()),
        (
            "place",
            pa.struct([("at", pa.struct([("x", pa.int32())])), ("tags", pa.list_(pa.int64()))]),
        ),
        ("cost", pa.decimal128(10, 2)),
        ("seen", pa.timestamp("us")),
        ("sent", pa.timestamp("us", "UTC")),
        ("open", pa.bool_()),
        ("zero", pa.int64()),
        ("small", pa.int32()),
    ]
)
ROWS = pa.RecordBatch.from_pylist(
    [
        {
            "itemID": 7,
            "price": 2.5,
            "my col": "x",
            "place": {"at": {"x": 3}, "tags": [10, 20]},
            "cost": Decimal("1.25"),
            "seen": datetime(2026, 11, 15, 10, 30),
            "sent": datetime(2026, 11, 15, 10, 30, tzinfo=timezone.utc),
            "open": True,
            "zero": 0,
            "small": 2_000_000_000,
        },
        {},
    ],
    schema=SCHEMA,
)


def value_of(text: str) -> Any:
    """The value over the first row; over the second, which is all NULL, it must not fail."""
    expression = Expression.parse(text, SCHEMA)
    found = expression.evaluate(ROWS, 2)
    assert found.type == expression.type
    assert len(found) == 2
    return found[0].as_py()


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("itemID", 7, pa.int64()),
        ("ITEMID + 1", 8, pa.int64()),
        ("price * 2 > 4", True, pa.bool_()),
        ("`my col` || '!'", "x!", pa.string()),
        ("place.at.x + 1", 4, pa.int32()),
        ("PLACE.At.X", 3, pa.int32()),
        ("place.at", {"x": 3}, pa.struct([("x", pa.int32())])),
        ("place.tags", [10, 20], pa.list_(pa.int64())),
        ("place.tags[0]", 10, pa.int64()),
        ("element_at(place.tags, 1)", 10, pa.int64()),
        ("transform(place.tags, x -> x + itemID)", [17, 27], pa.list_(pa.int64())),
        ("cost * 2", Decimal("2.50"), pa.decimal128(12, 2)),
        ("itemID / 2", 3.5, pa.float64()),
        ("itemID div 2", 3, pa.int64()),
        ("-itemID % 4", -3, pa.int64()),
        ("cast(price as int)", 2, pa.int32()),
        ("cast(-price as bigint)", -2, pa.int64()),
        ("try_cast(price + 1.2 as int)", 3, pa.int32()),
        ("cast(cost + 0.5 as int)", 1, pa.int32()),
        ("cast('12' as int)", 12, pa.int32()),
        ("cast(cast(price as int) as string)", "2", pa.string()),
        ("cast(itemID as string)", "7", pa.string()),
        ("try_cast(`my col` as int)", None, pa.int32()),
        ("seen + interval 1 day", datetime(2026, 11, 16, 10, 30), pa.timestamp("us")),
        ("date_trunc('hour', seen) = timestamp '2026-11-15 10:00:00'", True, pa.bool_()),
        ("cast(seen as date)", date(2026, 11, 15), pa.date32()),
        ("seen = timestamp '2026-11-15 10:30:00'", True, pa.bool_()),
        ("sent", datetime(2026, 11, 15, 10, 30, tzinfo=timezone.utc), pa.timestamp("us", "UTC")),
        ("not open", False, pa.bool_()),
        ("open <=> null", False, pa.bool_()),
        ("coalesce(price, 0)", 2.5, pa.float64()),
        ("case when open then 'yes' else 'no' end", "yes", pa.string()),
        ("if(itemID in (1, 7), 1, 2)", 1, pa.int32()),
        ("price between 2 and 3", True, pa.bool_()),
        ("`my col` like 'x%'", True, pa.bool_()),
        ("named_struct('p', price)", {"p": 2.5}, pa.struct([("p", pa.float64())])),
        ("array(itemID, 2)", [7, 2], pa.list_(pa.int64())),
        ("((price)) -- a comment", 2.5, pa.float64()),
        ("1", 1, pa.int32()),
        ("1.5", Decimal("1.5"), pa.decimal128(2, 1)),
        ("'text'", "text", pa.string()),
        ("true", True, pa.bool_()),
        ("null", None, pa.null()),
        ("1 + 2 * 3", 7, pa.int32()),
        ("date '2026-11-15'", date(2026, 11, 15), pa.date32()),
    ],
)
def test_an_expression_has_this_value_and_type(text: str, value: object, kind: pa.DataType) -> None:
    assert value_of(text) == value
    assert Expression.parse(text, SCHEMA).type == kind


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("PRICE*2>80", "price * 2 > 80"),
        ("(itemid)", "itemID"),
        ("`MY COL`", "`my col`"),
        ("Place.At.X", "place.At.X"),
        ("price > 1 /* why */ AND open", "price > 1 AND open"),
    ],
)
def test_the_canonical_text_spells_columns_as_the_schema_does(text: str, canonical: str) -> None:
    expression = Expression.parse(text, SCHEMA)
    assert expression.sql == canonical
    assert Expression.parse(canonical, SCHEMA) == expression


def test_expressions_are_equal_by_text_and_schema() -> None:
    assert Expression.parse("price>1", SCHEMA) == Expression.parse("PRICE > 1", SCHEMA)
    other = pa.schema([("price", pa.float64())])
    assert Expression.parse("price>1", SCHEMA) != Expression.parse("price > 1", other)
    assert len({Expression.parse(text, SCHEMA) for text in ("price>1", "price > 1", "1")}) == 2


@pytest.mark.parametrize("text", ["price * 2", "price", "1.5", "null", "named_struct('a', 1)"])
def test_expressions_survive_pickling(text: str) -> None:
    expression = Expression.parse(text, SCHEMA)
    again = pickle.loads(pickle.dumps(expression))
    assert again == expression
    assert hash(again) == hash(expression)
    assert again.evaluate(ROWS, 2).to_pylist() == expression.evaluate(ROWS, 2).to_pylist()


def test_columns_are_those_that_are_read() -> None:
    assert Expression.parse("price + itemID > place.at.x", SCHEMA).columns == {
        "price",
        "itemID",
        "place",
    }
    assert Expression.parse("1 + 1", SCHEMA).columns == frozenset()
    assert Expression.parse("transform(place.tags, x -> x)", SCHEMA).columns == {"place"}


def test_only_a_plain_reference_is_a_column() -> None:
    plain = {text: Expression.parse(text, SCHEMA).is_column for text in ("ITEMID", "(price)")}
    assert plain == {"ITEMID": "itemID", "(price)": "price"}
    for text in ("price + 0", "place.at", "1", "'price'"):
        assert Expression.parse(text, SCHEMA).is_column is None


def test_exact_spelling_wins_over_ignoring_case() -> None:
    schema = pa.schema([("a", pa.int64()), ("A", pa.string())])
    rows = pa.RecordBatch.from_pydict({"a": [1], "A": ["one"]})
    for text, value in (("a + 1", 2), ("A || '!'", "one!"), ("a", 1), ("A", "one")):
        assert Expression.parse(text, schema).evaluate(rows, 1).to_pylist() == [value]


@pytest.mark.parametrize("name", ["a.b", "we`ird", "select", "ünï", "__x", "1st", "a b", "'"])
def test_a_column_may_have_any_name(name: str) -> None:
    schema = pa.schema([(name, pa.int64())])
    rows = pa.RecordBatch.from_arrays([pa.array([4])], schema=schema)
    quoted = "`" + name.replace("`", "``") + "`"
    assert Expression.parse(f"{quoted} + 1", schema).evaluate(rows, 1).to_pylist() == [5]
    column = Expression.column(name, schema)
    assert column.is_column == name
    assert Expression.parse(column.sql, schema) == column


@pytest.mark.parametrize("text", ["price", "price * 2", "1", "open and price > 1", "place.at.x"])
def test_no_rows_give_no_values_of_the_right_type(text: str) -> None:
    expression = Expression.parse(text, SCHEMA)
    found = expression.evaluate(no_rows(SCHEMA), 0)
    assert len(found) == 0
    assert found.type == expression.type


def test_constants_need_a_length_only() -> None:
    nothing = pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    for text, value in (("1 + 1", 2), ("'a'", "a"), ("null", None), ("array(1)", [1])):
        assert Expression.parse(text, pa.schema([])).evaluate(nothing, 3).to_pylist() == [value] * 3


def test_only_the_needed_columns_must_be_there_in_any_order() -> None:
    rows = ROWS.select(["price", "itemID"])
    assert Expression.parse("itemID + price", SCHEMA).evaluate(rows, 2).to_pylist() == [9.5, None]


def test_plain_columns_and_constants_do_not_call_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    expressions = [Expression.parse(text, SCHEMA) for text in ("price", "1 + 1", "'a'")]

    def fail(*_: object) -> None:
        raise AssertionError("DuckDB was called")

    monkeypatch.setattr("anabranch.expressions.evaluation.select", fail)
    found = evaluate_all(expressions, ROWS, 2)
    assert [column.to_pylist() for column in found] == [[2.5, None], [2, 2], ["a", "a"]]


def test_many_expressions_are_one_call_and_keep_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = ["itemID % 5", "price", "7", "price / 2", "`my col`", "abs(itemID)"]
    expressions = [Expression.parse(text, SCHEMA) for text in texts]
    calls: list[int] = []
    original = select

    def count(sql: list[str], rows: pa.RecordBatch, functions: Any) -> pa.Table:
        calls.append(len(sql))
        return original(sql, rows, functions)

    monkeypatch.setattr("anabranch.expressions.evaluation.select", count)
    found = [column[0].as_py() for column in evaluate_all(expressions, ROWS, 2)]
    assert found == [2, 2.5, 7, 1.25, "x", 7]
    assert calls == [3]


def test_rows_keep_their_order() -> None:
    count = 300_000
    rows = pa.RecordBatch.from_pydict({"n": pa.array(range(count), pa.int64())})
    found = Expression.parse("abs(n) * 2 + 1", rows.schema).evaluate(rows, count)
    assert found.equals(pa.array(range(1, 2 * count, 2), pa.int64()))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("zero <> 0 and itemID / zero > 1", False),
        ("zero = 0 or itemID / zero > 1", True),
        ("itemID > 0 and zero <> 0 and itemID % zero = 1 and itemID div zero = 1", False),
        ("if(zero = 0, null, itemID / zero)", None),
        ("try_divide(itemID, zero)", None),
        ("itemID / nullif(zero, 0)", None),
        ("`my col` = '1' and cast(`my col` as int) > 0", False),
    ],
)
def test_what_the_left_side_decides_is_not_evaluated(text: str, value: object) -> None:
    assert value_of(text) == value


def test_and_and_or_keep_their_three_values() -> None:
    schema = pa.schema([("p", pa.bool_()), ("q", pa.bool_()), ("n", pa.int64())])
    logic = [True, False, None]
    rows = pa.RecordBatch.from_pylist([{"p": p, "q": q, "n": 1} for p in logic for q in logic])
    for word in ("and", "or"):
        plain = Expression.parse(f"p {word} q", schema).evaluate(rows, 9)
        # A division on the right makes the evaluation lazy.
        lazy = Expression.parse(f"p {word} (q and 1 / n = 1)", schema).evaluate(rows, 9)
        assert plain.to_pylist() == lazy.to_pylist()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("price / zero", "division by zero"),
        ("itemID % zero", "division by zero"),
        ("itemID div zero", "division by zero"),
        ("small + small", "Overflow"),
        ("small * small", "Overflow"),
        ("cast(`my col` as int)", "x is not a whole number"),
        ("cast(`my col` as double)", "x is not a number"),
    ],
)
def test_a_row_that_fails_names_the_expression(text: str, complaint: str) -> None:
    expression = Expression.parse(text, SCHEMA)
    with pytest.raises(StreamError, match=re.escape(expression.sql)) as caught:
        expression.evaluate(ROWS, 2)
    assert complaint in caught.value.where
    assert "__c" not in str(caught.value)
    assert "hint: filter such rows out" in str(caught.value)


def test_aggregates_only_duckdb_knows_are_refused_too() -> None:
    with pytest.raises(QueryError):
        Expression.parse("list(price)", SCHEMA)


def test_of_many_expressions_the_one_that_fails_is_named() -> None:
    texts = ["itemID + 1", "price / zero", "itemID - 1"]
    expressions = [Expression.parse(text, SCHEMA) for text in texts]
    with pytest.raises(StreamError, match="cannot evaluate price / zero\n  division by zero"):
        evaluate_all(expressions, ROWS, 2)


def test_what_duckdb_calls_unstable_is_refused() -> None:
    catalog = (
        "select distinct function_name from duckdb_functions() where stability <> 'CONSISTENT'"
    )
    names = {name for (name,) in duckdb.connect().execute(catalog).fetchall()}
    accepted = set()
    for name in sorted(names):
        try:
            Expression.parse(f"{name}()", SCHEMA)
        except QueryError as error:
            # A missing argument is a refusal by accident.
            stable = "is not deterministic" not in error.what
            if name not in UNSTABLE and stable and "there is no function" not in error.what:
                accepted.add(name)
        else:
            accepted.add(name)
    assert accepted == set()


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.dictionary(pa.int32(), pa.large_string()), pa.string()),
        (pa.large_list(pa.string_view()), pa.list_(pa.string())),
        (pa.struct([("a", pa.large_string())]), pa.struct([("a", pa.string())])),
        (pa.map_(pa.string(), pa.large_string()), pa.map_(pa.string(), pa.string())),
        (pa.decimal128(9, 2), pa.decimal128(9, 2)),
    ],
)
def test_results_have_plain_types(kind: pa.DataType, plain: pa.DataType) -> None:
    assert plain_type(kind) == plain


def test_refusals_read_like_this(update_golden: bool) -> None:
    path = Path(__file__).parent.parent / "golden" / "expression_errors.txt"
    cases = path.read_text().split("\n====\n")
    texts = [case.split("\n----\n")[0] for case in cases]
    schema = pa.schema(
        [
            ("itemID", pa.int64()),
            ("price", pa.float64()),
            ("name", pa.string()),
            SCHEMA.field("place"),
        ]
    )
    shown = []
    for text in texts:
        with pytest.raises(QueryError) as caught:
            Expression.parse(text, schema)
        shown.append(f"{text}\n----\n{caught.value}")
    if update_golden:
        path.write_text("\n====\n".join(shown) + "\n")
    assert "\n====\n".join(shown) + "\n" == path.read_text()


def test_threads_evaluate_at_the_same_time() -> None:
    expression = Expression.parse("itemID * 2 + 1", SCHEMA)

    def work(start: int) -> bool:
        rows = pa.RecordBatch.from_pydict({"itemID": list(range(start, start + 1000))})
        expected = [n * 2 + 1 for n in range(start, start + 1000)]
        return all(expression.evaluate(rows, 1000).to_pylist() == expected for _ in range(5))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(0, 8000, 1000)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_evaluates_on_its_own() -> None:
    expression = Expression.parse("itemID * 2", SCHEMA)
    expression.evaluate(ROWS, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fork while other threads live is what is tested
        child = os.fork()
    if child == 0:
        os._exit(0 if expression.evaluate(ROWS, 2).to_pylist() == [14, None] else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
