"""Replicas of a query with float sums, cut into other batches, do not contradict each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from anabranch.algebra.analysis.merge_case import Case
from anabranch.algebra.merge import Merge, MergePolicy
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import Duration, Time
from tests.kernels.plans import SCHEMA, aggregate

POINTS = Source(name="S", schema=SCHEMA, only_points=True)
QUERY = aggregate(TimeWindow(input=POINTS, size=Duration(7)), ("k",), "sx", "ax", "vs")


def cents(rows: int) -> EventBatch:
    random = np.random.default_rng(11)
    payload = pa.RecordBatch.from_arrays(
        [
            pa.array([f"k{number}" for number in random.integers(0, 9, rows)]),
            pa.array(np.ones(rows, np.int64)),
            pa.array(random.integers(1, 1_000, rows) / 100),
        ],
        schema=SCHEMA,
    )
    start = np.sort(random.integers(0, 60, rows))
    return EventBatch(payload, start, start, start + 1)


def replica(batches: int) -> list[EventBatch]:
    """What the query says when its input comes in so many batches, the last rows of each first."""
    whole, runner = cents(1_500), LocalRunner(QUERY)
    found = []
    for rows in np.array_split(np.arange(len(whole)), batches):
        part = whole.take(rows[::-1])
        later = whole.start[rows[-1] + 1] if rows[-1] + 1 < len(whole) else 999
        found.append(runner.step({"S": part.with_stable(Time(int(later)))}))
    return found


@pytest.mark.parametrize("case", ["r3", "r4"])
@pytest.mark.parametrize(("one", "other"), [(1, 8), (3, 50)])
def test_replicas_in_other_batches_agree_in_every_bit(case: Case, one: int, other: int) -> None:
    first, second = (Source(name=name, schema=QUERY.schema) for name in ("first", "second"))
    merge = LocalRunner(
        Merge(inputs=(first, second), case=case, policy=MergePolicy(divergence="fail"))
    )
    said = {"first": replica(one), "second": replica(other)}
    left = []
    for step in range(max(one, other)):
        came = {name: batches[step] for name, batches in said.items() if step < len(batches)}
        left.append(merge.step(came))
    expected = LogicalStream.of_batches(said["first"])
    assert LogicalStream.of_batches(said["second"]) == expected
    assert LogicalStream.of_batches(left) == expected
