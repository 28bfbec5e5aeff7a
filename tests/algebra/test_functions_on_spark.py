"""Every function of the table gives the same in a worker as in Spark, or fails in both."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.algebra.agreement import admitted, compare, failing_arguments, is_rough
from tests.algebra.function_arguments import (
    COLUMNS,
    SOME,
    ZONED,
    calls,
    casts,
    operations,
    rows,
    written,
)

from anabranch.errors import QueryError
from anabranch.expressions.expression import Expression
from anabranch.expressions.functions.every import FUNCTIONS
from anabranch.runtime.spark.spark_types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = rows()


NESTABLE = {name: kind for name, (kind, _) in COLUMNS.items() if name not in ("k", "j", "q")}
"""Columns that an expression may stand for; the others say how large something gets."""


@pytest.fixture(autouse=True)
def interpreted(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """Spark compiles for longer than it would evaluate; only the slow tests let it."""
    if request.node.get_closest_marker("slow") is None:
        spark.conf.set("spark.sql.codegen.wholeStage", "false")
        spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield
    spark.conf.unset("spark.sql.codegen.wholeStage")
    spark.conf.unset("spark.sql.codegen.factoryMode")


@pytest.mark.parametrize("_", ["interpreted", pytest.param("compiled", marks=pytest.mark.slow)])
def test_expressions_written_by_hand(spark: SparkSession, _: str) -> None:
    expressions = admitted([*written(), *ZONED], ROWS.schema)
    assert len(expressions) > 500
    assert expressions.keys() >= {*ZONED}
    assert compare(spark, expressions, ROWS) == []


@pytest.mark.parametrize("most", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_every_function_with_arguments_of_every_type(spark: SparkSession, most: int) -> None:
    texts = [text for each in FUNCTIONS.values() for text in calls(each, most)]
    assert compare(spark, admitted(texts, ROWS.schema), ROWS) == []


@pytest.mark.parametrize("columns", [SOME, pytest.param([*COLUMNS], marks=pytest.mark.slow)])
def test_casts_and_operators_between_all_types(spark: SparkSession, columns: list[str]) -> None:
    texts = [*casts(columns), *operations(columns)]
    assert compare(spark, admitted(texts, ROWS.schema), ROWS) == []


def test_expressions_inside_expressions(spark: SparkSession) -> None:
    compare_nested(spark, random.Random(10))


@pytest.mark.slow
@settings(max_examples=5)
@given(st.integers(0, 2**32))
def test_many_expressions_inside_expressions(spark: SparkSession, seed: int) -> None:
    compare_nested(spark, random.Random(seed))


def compare_nested(spark: SparkSession, draw: random.Random) -> None:
    known = admitted(written(), ROWS.schema)
    plain = {text: each for text, each in known.items() if each.columns and not is_rough(text)}
    nested = [nest(draw, plain) for _ in range(200)]
    expressions = admitted(nested, ROWS.schema)
    assert len(expressions) > 80
    unsaid = {text: failing_arguments(text, ROWS) for text in expressions}
    assert compare(spark, expressions, ROWS, unsaid) == []


def nest(draw: random.Random, known: dict[str, Expression]) -> str:
    """One expression in the place of a column of another, a few times over."""
    text = draw.choice(list(known))
    for _ in range(draw.randint(1, 3)):
        columns = [name for name in NESTABLE if re.search(rf"\b{name}\b", text)]
        if not columns:
            return text
        name = draw.choice(columns)
        fitting = [inner for inner, each in known.items() if each.type == NESTABLE[name]]
        if fitting:
            inner = f"({draw.choice(fitting)})"
            text = re.sub(rf"\b{name}\b", lambda _: inner, text, count=1)  # noqa: B023
    return text


def test_spark_says_the_type_of_what_only_it_evaluates(spark: SparkSession) -> None:
    ask = spark_type(spark)
    kinds = {
        "soundex(s)": pa.string(),
        "xxhash64(s, i4)": pa.int64(),
        "cast(f8 as string)": pa.string(),
        "array_distinct(li)": pa.list_(pa.int32()),
        "nt": pa.timestamp("us"),
        "date_trunc('day', nt)": pa.timestamp("us", "UTC"),
    }
    assert {text: ask(text, ROWS.schema) for text in kinds} == kinds
    expression = Expression.parse("soundex(s) = 'A100'", ROWS.schema, ask)
    assert expression.spark_only
    assert expression.type == pa.bool_()
    with pytest.raises(QueryError, match="Cannot resolve"):
        Expression.parse("soundex(li)", ROWS.schema, ask)
