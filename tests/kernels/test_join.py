"""Joins of all kinds mean what their node says."""

from __future__ import annotations

from typing import get_args

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.expression import Expression
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.model.batch import EventBatch
from anabranch.testing import assert_agrees, schedules, streams

LEFT = Source(name="L", schema=pa.schema([("k", pa.string()), ("v", pa.int64())]))
RIGHT = Source(name="R", schema=pa.schema([("j", pa.string()), ("w", pa.int32())]))
PREDICATES = {
    "product": None,
    "equal": "k = j",
    "two keys of different types": "k = j AND w = v",
    "equal and more": "v < w AND j = k",
    "band": "v BETWEEN w - 1 AND w + 1",
    "general": "v < w OR k IS NULL",
    "expressions": "upper(k) = upper(j)",
}
PAIRS = schedules(L=streams(LEFT.schema, max_size=12), R=streams(RIGHT.schema, max_size=12))

pytestmark = pytest.mark.usefixtures("eagerness")


def join(kind: JoinKind, text: str | None, left: Node = LEFT, right: Node = RIGHT) -> Join:
    both = pa.schema([*left.schema, *right.schema])
    predicate = None if text is None else Expression.parse(text, both)
    return Join(kind=kind, left=left, right=right, predicate=predicate)


@pytest.mark.parametrize("kind", get_args(JoinKind))
@given(steps=PAIRS, predicate=st.sampled_from(sorted(PREDICATES)))
def test_joins(kind: JoinKind, steps: list[dict[str, EventBatch]], predicate: str) -> None:
    assert_agrees(join(kind, PREDICATES[predicate]), batches=steps)


@given(
    steps=schedules(
        L=streams(LEFT.schema, insert_only=True), R=streams(RIGHT.schema, insert_only=True)
    ),
    kind=st.sampled_from(get_args(JoinKind)),
)
def test_joins_of_streams_without_corrections(
    kind: JoinKind, steps: list[dict[str, EventBatch]]
) -> None:
    left = Source(name="L", schema=LEFT.schema, insert_only=True)
    right = Source(name="R", schema=RIGHT.schema, insert_only=True)
    assert_agrees(join(kind, "k = j", left, right), batches=steps)


@given(steps=PAIRS, kind=st.sampled_from(get_args(JoinKind)))
def test_final_emission_of_a_join(kind: JoinKind, steps: list[dict[str, EventBatch]]) -> None:
    assert_agrees(join(kind, "k = j"), batches=steps, emit="final")
