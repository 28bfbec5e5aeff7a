"""Drawn plans over drawn streams on Spark mean what they say."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kernels.plans import SCHEMA, plans

from anabranch import Engine, LogicalStream, read_batches, write_stream
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING
from anabranch.testing import PhysicalState, batchings, elements_of, meaning, stable, streams

pytestmark = pytest.mark.spark

DEEP = settings.get_current_profile_name() == "nightly"


@settings(max_examples=50 if DEEP else 8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data(), streams(SCHEMA, max_size=14).flatmap(batchings), st.booleans())
def test_a_drawn_plan_on_spark(
    spark: object, data: st.DataObject, batches: list[EventBatch], final: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "in").mkdir()
        for number, batch in enumerate(batches):
            write_stream(root / "in" / f"{number:03}.jsonl", [batch])
        engine = Engine(spark, shards=2)
        source = engine.stream(root / "in", name="S", schema=SCHEMA, max_files_per_batch=1)
        query = replace(source, node=data.draw(plans(source.node)))
        run = query.start(
            to=root / "out.jsonl",
            emit="final" if final else "speculative",
            checkpoint=root / "checkpoint",
            available_now=True,
        )
        run.await_end()
        out = list(read_batches(root / "out.jsonl", query.schema))
        reached = max((batch.stable for batch in batches), default=BEGINNING)
        said = max((batch.stable for batch in out), default=BEGINNING)
        assert said == reached
        _assert_legal(out)
        want = meaning(query.node, {"S": LogicalStream.of_batches(batches)})
        got = LogicalStream.of_batches(out)
        if final:
            got, want = got.before(said), want.before(said)
        assert got.agrees_with(want) is None, got.difference(want)


def _assert_legal(out: list[EventBatch]) -> None:
    state = PhysicalState.empty()
    for batch in out:
        for move in elements_of(batch):
            assert state.take(move) == ""
        state.take(stable(batch.stable))
