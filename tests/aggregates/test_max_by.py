"""MAX_BY and MIN_BY give the value of the row in which something else is largest or smallest."""

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
from anabranch.testing import PhysicalStream, adjust, assert_agrees, insert, stable, streams

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
TEXTS = [
    "MAX_BY(x, s)",
    "MIN_BY(x, s)",
    "max_by(s, x)",
    "min_by(s, x)",
    "MAX_BY(s, struct(x, k))",
    "MIN_BY(named_struct('s', s, 'k', k), x)",
    "MAX_BY(k, k)",
]


@pytest.mark.parametrize(
    ("text", "pairs", "result"),
    [
        ("MAX_BY(x, s)", [(1.0, "a"), (2.0, "c"), (3.0, "b")], 2.0),
        ("MIN_BY(x, s)", [(1.0, "a"), (2.0, "c"), (3.0, None)], 1.0),
        ("MAX_BY(x, s)", [(1.0, "a"), (7.0, "a"), (None, "a")], 7.0),
        ("MIN_BY(x, s)", [(1.0, "a"), (7.0, "a"), (None, "a")], None),
        ("MAX_BY(x, s)", [(None, "b"), (7.0, "a")], None),
        ("MAX_BY(x, s)", [(1.0, None)], None),
    ],
)
def test_the_row_with_the_largest_by_decides(text: str, pairs: list[Any], result: Any) -> None:
    call = parse_aggregate(text, SCHEMA)
    values = [(None if by is None else (by, value), 1) for value, by in pairs]
    assert call.denote(values) == result


@given(streams(SCHEMA), st.integers(1, 6), st.sets(st.sampled_from(TEXTS), min_size=1, max_size=4))
def test_it_means_the_same_for_any_batches(
    stream: PhysicalStream, batch_size: int, texts: set[str]
) -> None:
    calls = [parse_aggregate(text, SCHEMA) for text in sorted(texts)]
    calls += [parse_aggregate("COUNT(*)", SCHEMA)] if len(texts) % 2 else []
    node = Aggregation(
        input=Source(name="S", schema=SCHEMA),
        group_by=(("k", Expression.column("k", SCHEMA)),),
        aggregates=tuple((f"a{number}", call) for number, call in enumerate(calls)),
    )
    assert_agrees(node, stream, batch_size=batch_size)


def test_a_withdrawn_row_gives_the_one_before() -> None:
    node = Aggregation(
        input=Source(name="S", schema=SCHEMA),
        aggregates=(("last", parse_aggregate("MAX_BY(x, k)", SCHEMA)),),
    )
    elements = (
        insert(1, 10.0, "a", start=0, end=9),
        insert(2, 20.0, "a", start=2, end=9),
        adjust(2, 20.0, "a", start=2, end=9, new_end=2),
        stable(20),
    )
    for size in (1, 2, len(elements)):
        assert_agrees(node, PhysicalStream(SCHEMA, elements), batch_size=size)


def test_labels_show_what_was_written() -> None:
    assert parse_aggregate("MAX_BY(x * 2, s)", SCHEMA).label == "max_by(x * 2, s)"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("MAX_BY(x)", "two arguments"),
        ("MAX_BY(x, s, 3)", "not supported"),
        ("MAX_BY(array(x), s)", "have no order"),
        ("MIN_BY(x, array(s))", "have no order"),
        ("MIN_BY(DISTINCT x, s)", "DISTINCT"),
    ],
)
def test_what_is_wrong_is_said(text: str, what: str) -> None:
    with pytest.raises(AnabranchError, match=what):
        parse_aggregate(text, SCHEMA)
