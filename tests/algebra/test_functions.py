"""What workers evaluate, what is left to Spark, and what nobody knows."""

from __future__ import annotations

import pickle
import re
from datetime import datetime, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.algebra.function_arguments import rows, written

from anabranch.errors import PlanError, QueryError, StreamError
from anabranch.expressions.evaluation import numbered, select
from anabranch.expressions.expression import Expression, evaluate_all
from anabranch.expressions.functions.every import FUNCTIONS, GROUPS
from anabranch.expressions.functions.names import AGGREGATES, GENERATORS, SCALARS, WINDOW_FUNCTIONS
from anabranch.expressions.functions.value import duckdb_name
from anabranch.expressions.refusals import UNSTABLE

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("at", pa.timestamp("us")),
        ("l", pa.list_(pa.int32())),
        ("t", pa.time64("us")),
    ]
)
ROW = pa.RecordBatch.from_pylist([{"i": 1, "x": 2.0, "s": "a"}], schema=SCHEMA)


def texts(_: str, __: pa.Schema) -> pa.DataType:
    """A Spark for which everything is a text."""
    return pa.string()


def test_the_table_is_broad_and_holds_functions_of_spark_only() -> None:
    assert len(FUNCTIONS) >= 200
    assert set(FUNCTIONS) <= SCALARS
    assert sum(map(len, GROUPS.values())) == len(FUNCTIONS)


def test_a_name_of_spark_is_of_one_kind() -> None:
    kinds = (SCALARS, AGGREGATES, WINDOW_FUNCTIONS, GENERATORS)
    assert sum(map(len, kinds)) == len(frozenset().union(*kinds))
    assert not SCALARS & UNSTABLE


def test_values_have_the_type_that_is_declared_for_them() -> None:
    """A wider type inside would hide an overflow."""
    sample = rows()
    wrong = {}
    for text in written():
        try:
            found = Expression.parse(text, sample.schema)
        except QueryError:
            continue
        if found.is_column is None and found.type != pa.null():
            columns = numbered(found.columns, sample.schema, sample[:0], 0)
            kind = select([found.duckdb_sql], columns).column(0).type
            again = select([f"CAST(NULL AS {duckdb_name(found.type)})"], columns).column(0).type
            if kind != again:
                wrong[text] = (kind, again)
    assert wrong == {}


@pytest.mark.parametrize(
    "text", ["soundex(s)", "format_number(x, 2)", "upper(x)", "cast(x as string)", "t = t", "s < l"]
)
def test_what_is_not_in_the_table_is_left_to_spark(text: str) -> None:
    expression = Expression.parse(text, SCHEMA, texts)
    assert expression.spark_only
    assert expression.may_fail
    assert expression.type == pa.string()
    assert expression.constant is None
    assert Expression.parse(expression.sql, SCHEMA, texts) == expression
    assert pickle.loads(pickle.dumps(expression)) == expression


def test_what_is_left_to_spark_needs_someone_who_knows_its_type() -> None:
    with pytest.raises(QueryError, match="soundex is evaluated by Spark only") as caught:
        Expression.parse("soundex(s) = 'A123'", SCHEMA)
    assert "right above a DataFrame source" in caught.value.hint


def test_a_worker_does_not_evaluate_what_is_left_to_spark() -> None:
    expressions = [Expression.parse(text, SCHEMA, texts) for text in ("upper(s)", "soundex(s)")]
    with pytest.raises(PlanError, match=r"SOUNDEX\(s\) is evaluated by Spark only") as caught:
        evaluate_all(expressions, ROW, 1)
    assert "right above a DataFrame source" in caught.value.hint


def test_known_functions_do_not_ask_spark() -> None:
    def nobody(_: str, __: pa.Schema) -> pa.DataType:
        raise AssertionError

    assert not Expression.parse("upper(s)", SCHEMA, nobody).spark_only


@pytest.mark.parametrize(
    ("text", "near"), [("uper(s)", "upper"), ("lenght(s)", "length"), ("soundx(s)", "soundex")]
)
def test_a_function_that_nobody_knows_is_refused_with_names_that_are_near(
    text: str, near: str
) -> None:
    with pytest.raises(QueryError, match="there is no function") as caught:
        Expression.parse(text, SCHEMA, texts)
    assert near in caught.value.hint
    assert "^" in caught.value.where


@pytest.mark.parametrize("text", ["i | 2 & 3", "i = 1 < true", "s || i + 1", "i & 1 = 1 = true"])
def test_what_spark_would_take_apart_differently_is_refused(text: str) -> None:
    if text.startswith("i & 1"):
        assert Expression.parse("(i & 1) = 1", SCHEMA).type == pa.bool_()
        return
    with pytest.raises(QueryError, match="the precedence of operators is not clear"):
        Expression.parse(text, SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "cast('now' as timestamp)",
        "date 'today'",
        "to_timestamp(' Yesterday ')",
        "unix_timestamp()",
        "current_date()",
        "aes_encrypt(s, s)",
    ],
)
def test_what_depends_on_the_time_of_asking_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="is not deterministic"):
        Expression.parse(text, SCHEMA, texts)


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("i", False),
        ("i + 1", True),
        ("x + 1", False),
        ("x / 2", False),
        ("x / i", True),
        ("try_divide(x, i)", False),
        ("try_add(i, 1)", False),
        ("cast(s as int)", True),
        ("try_cast(s as int)", False),
        ("l[0]", True),
        ("get(l, 0)", False),
        ("upper(s) = 'A'", False),
        ("at > timestamp '2026-11-15'", False),
        ("transform(l, e -> e + 1)", True),
        ("1 + 1", False),
    ],
)
def test_it_is_known_whether_an_expression_may_fail(text: str, fails: bool) -> None:
    assert Expression.parse(text, SCHEMA).may_fail is fails


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("nvl(i, 1)", "NVL(i, 1)"),
        ("element_at(l, -1)", "ELEMENT_AT(l, -1)"),
        ("'it''s'", r"'it\'s'"),
        ("at - interval 1 day 2 hours", "at - (INTERVAL '1' DAY + INTERVAL '2' HOURS)"),
        ("s not like 'a%'", "s NOT LIKE 'a%'"),
    ],
)
def test_functions_keep_their_names_and_arguments(text: str, canonical: str) -> None:
    assert Expression.parse(text, SCHEMA).sql == canonical


def test_the_page_lists_the_functions_of_the_table() -> None:
    page = (ROOT / "docs" / "functions.md").read_text(encoding="utf-8")
    listed = page.split("## The table")[1].split("### Casts")[0]
    sections = [section.split("\n\n")[1] for section in listed.split("### ")[1:]]
    named = [re.findall(r"`([a-z0-9_]+)`", section) for section in sections]
    assert named == [sorted(group) for group in GROUPS.values()]


def test_a_day_in_a_time_zone_follows_its_summer_time() -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])
    instants = ["2026-03-28T22:59:00", "2026-03-28T23:00:00", "2026-03-29T21:59:00"]
    at = pa.array(instants).cast(pa.timestamp("us")).cast(schema.field(0).type)
    text = "cast(date(from_utc_timestamp(at, 'Europe/Berlin')) as string)"
    rows = pa.RecordBatch.from_arrays([at], schema=schema)
    (found,) = evaluate_all([Expression.parse(text, schema)], rows, 3)
    assert found.to_pylist() == ["2026-03-28", "2026-03-29", "2026-03-29"]


INSTANTS = st.datetimes(datetime(1970, 1, 1), datetime(2037, 12, 31))
NAMES = st.sampled_from(
    ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"]
)


@given(st.lists(st.tuples(INSTANTS, NAMES | st.none()), min_size=1, max_size=40))
def test_every_row_may_name_its_time_zone(drawn: list[tuple[datetime, str | None]]) -> None:
    schema = pa.schema([("at", pa.timestamp("us")), ("zone", pa.string())])
    rows = pa.RecordBatch.from_pylist([{"at": at, "zone": zone} for at, zone in drawn], schema)
    text = "convert_timezone('UTC', zone, at)"
    (found,) = evaluate_all([Expression.parse(text, schema)], rows, len(drawn))
    assert found.to_pylist() == [
        zone and at.replace(tzinfo=timezone.utc).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        for at, zone in drawn
    ]


@pytest.mark.parametrize("zone", ["Europe/Berln", "PST", "", "+19:00"])
def test_a_row_with_a_time_zone_that_does_not_exist_fails(zone: str) -> None:
    schema = pa.schema([("at", pa.timestamp("us")), ("zone", pa.string())])
    rows = pa.RecordBatch.from_pylist([{"at": datetime(2026, 1, 1), "zone": zone}], schema)
    parsed = Expression.parse("from_utc_timestamp(at, zone)", schema)
    assert parsed.may_fail
    with pytest.raises(StreamError, match="cannot evaluate FROM_UTC_TIMESTAMP") as caught:
        evaluate_all([parsed], rows, 1)
    assert zone in str(caught.value)


def test_a_time_zone_that_does_not_exist_is_refused_with_names_that_are_near() -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])
    with pytest.raises(QueryError, match="there is no time zone 'Europe/Berln'") as caught:
        Expression.parse("from_utc_timestamp(at, 'Europe/Berln')", schema)
    assert "'Europe/Berlin'" in caught.value.hint
