"""A running query becomes another one at an instant: before it the old answer, then the new one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.changed_queries import (
    SPAN_OF_FILE,
    answers,
    counting,
    declare,
    feed,
    instants,
    snapshot,
)
from tests.e2e.revised_queries import assert_legal

from anabranch.engine import Engine

pytestmark = pytest.mark.spark

PATIENCE = 120.0


def test_a_running_query_becomes_another_one(engine: Engine, tmp_path: Path) -> None:
    declare(engine, tmp_path)
    run = counting(engine, 1500).start(tmp_path / "out")
    feed(run, tmp_path, range(4))
    migration = run.migrate(counting(engine, 400, least=500)).await_switched(PATIENCE)
    assert migration.how == "clip"
    # Above all ends of windows that rows had by then.
    assert migration.at is not None
    assert 4 * SPAN_OF_FILE + 1400 < migration.at < 4 * SPAN_OF_FILE + 1600
    feed(run, tmp_path, range(4, 8))
    assert run.status == "running"
    migration.await_finished(PATIENCE)
    feed(run, tmp_path, range(8, 10))
    run.stop()
    at = migration.at
    for instant in instants(int(run.stable), at):
        old, new = answers(tmp_path, instant, 1500), answers(tmp_path, instant, 400, least=500)
        assert snapshot(run, instant) == (old if instant < at else new), instant
    assert_legal(tmp_path / "out")
