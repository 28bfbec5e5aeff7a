"""Operators on lifetimes mean the same on several shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.clip import Clip
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.split import Split
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.netting import net
from anabranch.model.time import FOREVER, Duration, Time
from anabranch.testing import PhysicalState, batchings, elements_of, streams, violations

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
BIDS = Source(name="bids", schema=SCHEMA)

Make = Callable[..., Any]

BEGUN = ToStream(input=BIDS, kind="insertions")
PLANS: dict[str, Node] = {
    "sampled and moved": Shift(input=Granularity(input=BIDS, granule=Duration(3)), by=-2),
    "split": Split(input=BIDS, length=Duration(2)),
    "what ended": ToStream(input=BIDS, kind="deletions"),
    "edges and back": FromSigned(input=ToSigned(input=BIDS)),
    "cut": Cleanse(input=BIDS),
    "whole": Cleanse(input=BIDS, cut=False),
    "extended": AlterLifetime(input=BIDS, extend=Duration(2)),
    "sessions": SessionWindow(
        input=BEGUN,
        gap=Duration(3),
        partition_by=(("k", Expression.parse("k", SCHEMA)),),
        columns=("window_start", "window_end"),
    ),
    "sessions of all": SessionWindow(input=BEGUN, gap=Duration(2)),
    "two stages": ToStream(
        input=Union(inputs=(ToStream(input=BIDS, kind="insertions"), BIDS)), kind="deletions"
    ),
    "a swap": Union(
        inputs=(
            Clip(input=Split(input=BIDS, length=Duration(2)), end=Time(5)),
            Clip(input=AlterLifetime(input=BIDS, extend=Duration(0)), start=Time(5)),
        )
    ),
}


@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=streams(SCHEMA, longest=9).flatmap(batchings),
    shards=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_shards_mean_what_one_process_does(
    sharded: Make, name: str, batches: list[EventBatch], shards: int, seed: int
) -> None:
    node = PLANS[name]
    local, runner = LocalRunner(node), sharded(node, shards=shards, seed=seed)
    expected: list[EventBatch] = []
    state, late = PhysicalState.empty(), any(each.holds_back for each in node.walk())
    for batch in batches:
        expected.append(local.step({"bids": batch}))
        found = runner.step({"bids": [batch]})
        assert found.stable == expected[-1].stable
        # Rows are ordered by time on their way; what happened to one event is added up here.
        assert not list(violations(elements_of(net(found)), state))
        state.stable = found.stable
        wanted, got = LogicalStream.of_batches(expected), LogicalStream.of(state.events.elements())
        assert got.difference(wanted, before=found.stable if late else FOREVER) == ""
