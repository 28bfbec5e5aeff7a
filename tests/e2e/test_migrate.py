"""A running query becomes another one at an instant: before it the old answer, then the new one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.e2e.changed_queries import (
    DECLARED,
    SPAN_OF_FILE,
    answers,
    counting,
    declare,
    feed,
    instants,
    snapshot,
)
from tests.e2e.revised_queries import assert_legal
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.engine import Engine
from anabranch.migrate import large_replay
from anabranch.runtime.spark.session import DRIVER_ROWS

pytestmark = pytest.mark.spark

PATIENCE = 120.0


def test_a_running_query_becomes_another_one(engine: Engine, tmp_path: Path) -> None:
    declare(engine, tmp_path)
    run = counting(engine, 1500).start(tmp_path / "out")
    feed(run, tmp_path, range(4))
    before = run.execution.query.runId
    migration = run.migrate(counting(engine, 400, least=500)).await_switched(PATIENCE)
    assert migration.how == "clip"
    # Above all ends of windows that rows had by then.
    assert migration.at is not None
    assert 4 * SPAN_OF_FILE + 1400 < migration.at < 4 * SPAN_OF_FILE + 1600
    feed(run, tmp_path, range(4, 8))
    assert run.status == "running"
    migration.await_finished(PATIENCE)
    feed(run, tmp_path, range(8, 10))
    # Spark's query has never been started again: that would be a pause.
    assert run.execution.query.runId == before
    run.stop()
    at = migration.at
    for instant in instants(int(run.stable), at):
        old, new = answers(tmp_path, instant, 1500), answers(tmp_path, instant, 400, least=500)
        assert snapshot(run, instant) == (old if instant < at else new), instant
    assert_legal(tmp_path / "out")


def test_a_changed_script_is_handed_in_by_the_command_line_and_replayed(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if there were many rows: they are read by tasks, in several batches.
    monkeypatch.setattr(large_replay, "REPLAY_IN_TASKS_FROM_ROWS", 1)
    monkeypatch.setattr(large_replay, "REPLAYED_BATCH_ROWS", 15_000)
    declare(engine, tmp_path)
    run = counting(engine, 1500).start(tmp_path / "out")
    feed(run, tmp_path, range(3))
    script = tmp_path / "new.sql"
    script.write_text(
        f"{DECLARED.format(folder=tmp_path)};\n"
        "SELECT item, SUM(price) AS total, COUNT(*) AS n FROM Bid WINDOW(RANGE 400) "
        "WHERE price >= 500 GROUP BY item;"
    )
    words = ["migrate", str(tmp_path / "out"), str(script), "--how", "replay", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert (said["state"], said["how"]) == ("finished", "replay")
    # The stable point: the last row less the delay.
    at = said["at"]
    assert 3 * SPAN_OF_FILE - 100 < at < 3 * SPAN_OF_FILE
    feed(run, tmp_path, range(3, 5))
    run.stop()
    for instant in instants(int(run.stable), at):
        old, new = answers(tmp_path, instant, 1500), answers(tmp_path, instant, 400, least=500)
        assert snapshot(run, instant) == (old if instant < at else new), instant
    assert_legal(tmp_path / "out")
    listed = CliRunner().invoke(app, ["migrations", str(tmp_path / "out")])
    assert "finished" in listed.stdout


def test_one_of_several_queries_changes_and_the_others_keep_their_state(
    engine: Engine, tmp_path: Path
) -> None:
    declare(engine, tmp_path)
    outs = [str(tmp_path / "a"), str(tmp_path / "b")]
    queries = [counting(engine, 1500), counting(engine, 900)]
    # All batches in tasks, which have to be told of the plan.
    usual = engine.spark.conf.get(DRIVER_ROWS)
    engine.spark.conf.set(DRIVER_ROWS, "0")
    try:
        first, second = engine.start_all(queries, outs, checkpoint=tmp_path / "home")
    finally:
        engine.spark.conf.set(DRIVER_ROWS, usual)
    before = first.execution.query.runId
    feed(first, tmp_path, range(2), rows=2_000)
    migration = first.migrate(counting(engine, 400, least=500)).await_switched(PATIENCE)
    assert migration.at is not None
    feed(first, tmp_path, range(2, 6), rows=2_000)
    migration.await_finished(PATIENCE)
    feed(first, tmp_path, range(6, 7), rows=2_000)
    assert first.execution.query.runId == before
    assert {each["ran"] for each in first.metrics()} == {"tasks"}
    first.stop()
    for instant in instants(int(first.stable), migration.at):
        old, new = answers(tmp_path, instant, 1500), answers(tmp_path, instant, 400, least=500)
        assert snapshot(first, instant) == (old if instant < migration.at else new), instant
        assert snapshot(second, instant) == answers(tmp_path, instant, 900), instant
    for out in outs:
        assert_legal(Path(out))


def test_a_dataframe_is_read_again_from_its_archive(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = engine.spark.readStream.schema("item INT, price INT, t BIGINT")
    frame = rows.parquet(str(tmp_path / "in"))
    archive = str(tmp_path / "archive")
    engine.stream(frame, name="Bid", start="t", delay=40, archive=archive, replace=True)
    run = counting(engine, 1500).start(tmp_path / "out")
    feed(run, tmp_path, range(3), rows=3_000)
    before = run.execution.query.runId
    migration = run.migrate(counting(engine, 400), how="replay").await_finished(PATIENCE)
    assert migration.at is not None
    assert 3 * SPAN_OF_FILE - 100 < migration.at < 3 * SPAN_OF_FILE
    feed(run, tmp_path, range(3, 5), rows=3_000)
    assert run.execution.query.runId == before
    run.stop()
    for instant in instants(int(run.stable), migration.at):
        size = 1500 if instant < migration.at else 400
        assert snapshot(run, instant) == answers(tmp_path, instant, size), instant
    assert_legal(tmp_path / "out")
