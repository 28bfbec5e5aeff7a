"""COLLECT_LIST and COLLECT_SET give all values as one array, in ascending order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.source import Source
from anabranch.errors import AnabranchError
from anabranch.expressions.expression import Expression
from anabranch.language.text.aggregate_text import parse_aggregate
from anabranch.testing import PhysicalStream, assert_agrees, streams

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
TEXTS = [
    "COLLECT_LIST(x)",
    "COLLECT_LIST(s)",
    "ARRAY_AGG(DISTINCT s)",
    "COLLECT_SET(x)",
    "COLLECT_LIST(struct(s, x))",
    "COLLECT_SET(struct(x, s))",
]


@pytest.mark.parametrize(
    ("text", "values", "result"),
    [
        ("COLLECT_LIST(s)", ["b", "a", None, "b"], ("a", "b", "b")),
        ("COLLECT_SET(s)", ["b", "a", None, "b"], ("a", "b")),
        ("ARRAY_AGG(DISTINCT s)", ["b", "b"], ("b",)),
        ("COLLECT_LIST(s)", [None], ()),
    ],
)
def test_values_are_in_ascending_order(text: str, values: list[Any], result: Any) -> None:
    assert parse_aggregate(text, SCHEMA).denote([(value, 1) for value in values]) == result


@given(streams(SCHEMA), st.integers(1, 6), st.sets(st.sampled_from(TEXTS), min_size=1, max_size=3))
def test_it_means_the_same_for_any_batches(
    stream: PhysicalStream, batch_size: int, texts: set[str]
) -> None:
    node = Aggregation(
        input=Source(name="S", schema=SCHEMA),
        group_by=(("k", Expression.column("k", SCHEMA)),),
        aggregates=tuple(
            (f"a{number}", parse_aggregate(text, SCHEMA))
            for number, text in enumerate(sorted(texts))
        ),
    )
    assert_agrees(node, stream, batch_size=batch_size)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("COLLECT_LIST(array(x))", "does not work on values of type list"),
        ("COLLECT_SET(DISTINCT x)", "DISTINCT cannot be used with collect_set"),
        ("ARRAY_AGG(x ORDER BY s)", "ordered by these values only"),
        ("ARRAY_AGG(x ORDER BY x DESC)", "ascending"),
    ],
)
def test_what_is_wrong_is_said(text: str, what: str) -> None:
    with pytest.raises(AnabranchError, match=what):
        parse_aggregate(text, SCHEMA)
