"""Joins of all kinds mean what their node says."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.analysis.join_band import Band
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.errors import StreamError
from anabranch.expressions.expression import Expression
from anabranch.kernels.columns.stretches import near_stretches
from anabranch.kernels.plan.local_runner import LocalRunner
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
    "a band of one side": "abs(w - v) < 1.5 AND w <= v",
    "a band of two conditions": "v * 2 >= w - 0.25 AND w + 3 > v * 2",
    "a band that nothing is in": "v < w - 2 AND v > w + 2",
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


floats = st.one_of(
    st.floats(-9, 9),
    st.floats(),
    st.sampled_from([2.0**40, 2.0**39, 2.0**41, 1e18, 1e300, float("inf"), float("nan")]),
)


@given(
    st.lists(floats, min_size=1, max_size=6),
    st.lists(st.floats(-3, 3), min_size=1, max_size=6),
    st.floats(0, 1e3),
    st.floats(0, 1e3),
)
def test_what_is_near_enough_shares_a_stretch(
    lefts: list[float], offsets: list[float], below: float, above: float
) -> None:
    rights = [left + offset for left in lefts for offset in offsets]
    schemas = [pa.schema([(name, pa.float64())]) for name in "ab"]
    a, b = (Expression.parse(name, schema) for name, schema in zip("ab", schemas, strict=True))
    band = Band(left=a, right=b, below=below, above=above)
    stretches = []
    for side, values in enumerate((lefts, rights)):
        payload = pa.RecordBatch.from_arrays([pa.array(values)], schema=schemas[side])
        rows, stretch = near_stretches(band, payload, side)
        stretches.append(set(zip(rows.tolist(), stretch.tolist(), strict=True)))
    for i, left in enumerate(lefts):
        for j, right in enumerate(rights):
            both_odd = np.isnan(left) and np.isnan(right)
            if both_odd or right - below <= left <= right + above:
                mine = {stretch for row, stretch in stretches[0] if row == i}
                assert next(stretch for row, stretch in stretches[1] if row == j) in mine


@pytest.mark.parametrize("kind", get_args(JoinKind))
def test_a_withdrawal_of_an_event_that_never_came_is_refused(kind: JoinKind) -> None:
    """Also where many of them meet few that came: loops never write where nothing is."""
    runner = LocalRunner(join(kind, "k = j"))
    came, unknown = 20, 300
    rows = came + unknown
    payload = pa.record_batch([["a"] * rows, list(range(rows))], schema=RIGHT.schema)
    ends = np.where(np.arange(rows) < came, 5, 9), np.where(np.arange(rows) < came, 9, 5)
    one = pa.record_batch([["a"], [0]], schema=LEFT.schema)
    steps = [
        {"R": EventBatch(payload, np.full(rows, 5), *ends)},
        {"L": EventBatch(one, np.array([5]), np.array([5]), np.array([9]))},
    ]
    with pytest.raises(StreamError, match="never inserted"):
        list(map(runner.step, steps))
