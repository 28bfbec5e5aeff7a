"""Distinct and the set operations mean what their nodes say."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.set_operation import SetKind, SetOperation
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.model.batch import EventBatch
from anabranch.model.time import Duration
from anabranch.testing import (
    PhysicalStream,
    assert_agrees,
    batchings,
    insert,
    payload_schemas,
    schedules,
    streams,
)
from tests.kernels.plans import SCHEMA, SOURCE

OTHER = Source(name="T", schema=SCHEMA)
PAIRS = schedules(S=streams(SCHEMA), T=streams(SCHEMA))

pytestmark = pytest.mark.usefixtures("eagerness")


@given(streams(SCHEMA).flatmap(batchings), st.sampled_from(["speculative", "final"]))
def test_distinct(batches: list[EventBatch], emit: str) -> None:
    assert_agrees(
        Distinct(input=SOURCE), batches, emit="final" if emit == "final" else "speculative"
    )


@given(st.data(), payload_schemas())
def test_distinct_of_any_columns(data: st.DataObject, schema: object) -> None:
    source = Source(name="S", schema=schema)
    batches = data.draw(streams(schema).flatmap(batchings))
    assert_agrees(Distinct(input=source), batches)


@pytest.mark.parametrize("kind", get_args(SetKind))
@given(steps=PAIRS)
def test_set_operations(kind: SetKind, steps: list[dict[str, EventBatch]]) -> None:
    assert_agrees(SetOperation(kind=kind, left=SOURCE, right=OTHER), batches=steps)


@given(steps=PAIRS)
def test_a_plan_that_reads_a_part_of_it_twice(steps: list[dict[str, EventBatch]]) -> None:
    few = Distinct(input=SOURCE)
    node = SetOperation(
        kind="difference",
        left=Union(inputs=(few, OTHER)),
        right=SetOperation(kind="intersection", left=few, right=OTHER),
    )
    assert_agrees(node, batches=steps)


def test_neighbouring_points_become_one_lifetime_and_are_no_points_any_more() -> None:
    source = Source(name="S", schema=SCHEMA, only_points=True)
    points = [insert("a", 1, 0.5, start=time, end=time + 1) for time in (1, 2)]
    node = TimeWindow(input=Distinct(input=source), size=Duration(5))
    assert_agrees(node, PhysicalStream(SCHEMA, tuple(points)))
