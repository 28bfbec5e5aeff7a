"""Aggregates as users write them, and what they are told where that is wrong."""

from __future__ import annotations

import pyarrow as pa
import pytest

from anabranch.errors import AnabranchError, PlanError, QueryError
from anabranch.language.text.aggregate_text import parse_aggregate

SCHEMA = pa.schema([("x", pa.float64()), ("name", pa.string()), ("v", pa.int64())])


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("MEDIAN(x)", "median(x)"),
        ("median(x * 2)", "median(x * 2)"),
        ("PERCENTILE(x, 0.9)", "percentile(x, 0.9)"),
        ("percentile_cont(x, 0.9)", "percentile(x, 0.9)"),
        ("PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY x + 1)", "percentile(x + 1, 0.25)"),
        ("percentile(x, 1 / 2)", "percentile(x, 0.5)"),
        ("percentile(x, 1)", "percentile(x, 1.0)"),
        ("percentile(COALESCE(x, v), 0.5)", "percentile(COALESCE(x, v), 0.5)"),
        ("PERCENTILE_DISC(name, 0.5)", "percentile_disc(name, 0.5)"),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY v)", "percentile_disc(v, 0.5)"),
        ("STRING_AGG(name, ', ')", "string_agg(name, ', ')"),
        ("LISTAGG(name, '\\'')", "string_agg(name, '\\'')"),
        ("listagg(name)", "string_agg(name, '')"),
        ("LISTAGG(name, ',') WITHIN GROUP (ORDER BY name)", "string_agg(name, ',')"),
        ("string_agg(DISTINCT name, ',')", "string_agg(DISTINCT name, ',')"),
        ("STRING_AGG(CAST(v AS STRING), ' ')", "string_agg(CAST(v AS STRING), ' ')"),
        ("SUM(DISTINCT v)", "sum(DISTINCT v)"),
        ("avg(DISTINCT x)", "avg(DISTINCT x)"),
    ],
)
def test_an_aggregate_is_read_and_written(text: str, label: str) -> None:
    call = parse_aggregate(text, SCHEMA)
    assert call.label == label
    assert parse_aggregate(call.label, SCHEMA) == call


@pytest.mark.parametrize(
    ("text", "kind", "what", "hint"),
    [
        (
            "PERCENTILE(x, 90)",
            QueryError,
            "the fraction of a percentile cannot be 90",
            "0.9, not 90",
        ),
        (
            "PERCENTILE(x, -0.1)",
            QueryError,
            "the fraction of a percentile cannot be -0.1",
            "between 0",
        ),
        ("percentile(x, v)", QueryError, "must be a constant", "PERCENTILE(x, 0.9)"),
        ("percentile(x, NULL)", QueryError, "NULL is not a fraction", "PERCENTILE(x, 0.9)"),
        ("percentile(x, '0.5')", QueryError, "'0.5' is not a fraction", "PERCENTILE(x, 0.9)"),
        ("percentile(x, array(0.1))", QueryError, "is not a fraction", "PERCENTILE(x, 0.9)"),
        ("percentile(x)", QueryError, "has no fraction", "PERCENTILE(x, 0.9)"),
        ("percentile(x, 0.5, v)", QueryError, "with frequencies", "counts several times"),
        (
            "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x DESC)",
            QueryError,
            "must be one expression, ascending",
            "ORDER BY x",
        ),
        ("percentile(name, 0.5)", PlanError, "does not work on values of type string", "cast"),
        ("MEDIAN(name)", PlanError, "does not work on values of type string", "cast"),
        (
            "median(DISTINCT x)",
            PlanError,
            "DISTINCT cannot be used with median",
            "count, string_agg, sum",
        ),
        ("median(*)", PlanError, "median(*) needs an argument", "only count"),
        ("STRING_AGG(name, name)", QueryError, "separator of STRING_AGG must be", "', '"),
        ("STRING_AGG(name, 3)", QueryError, "the separator 3 is not a string", "', '"),
        ("STRING_AGG(v, ',')", PlanError, "values of type int64", "CAST(x AS STRING)"),
        ("STRING_AGG(name, ',' ORDER BY v)", QueryError, "by its own values", "ORDER BY name"),
        ("STRING_AGG(name, ',' ORDER BY name DESC)", QueryError, "ascending", "ascending"),
        ("sum(x) WITHIN GROUP (ORDER BY x)", QueryError, "is not an aggregate", "SUM(x)"),
        ("percentile_approx(x, 0.5)", QueryError, "is not an aggregate", "PERCENTILE(x"),
        ("median(x) FILTER (WHERE v > 1)", QueryError, "is not an aggregate", "MEDIAN(x)"),
    ],
)
def test_what_is_wrong_is_said_in_three_parts(
    text: str, kind: type[AnabranchError], what: str, hint: str
) -> None:
    with pytest.raises(kind) as caught:
        parse_aggregate(text, SCHEMA)
    assert what in caught.value.what
    assert hint in caught.value.hint
