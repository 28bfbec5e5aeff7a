"""A running query becomes another one at an instant: before it the old answer, then the new one."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
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
    write_file,
)
from tests.e2e.module_query import query as windows_by
from tests.e2e.module_query import write_input
from tests.e2e.module_versions import MeanAdded, told_of_windows
from tests.e2e.revised_queries import assert_legal
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.engine import Engine
from anabranch.errors import PlanError
from anabranch.migrate import large_replay
from anabranch.model.batch import EventBatch
from anabranch.model.files.stream_file import read_batches
from anabranch.model.logical import LogicalStream
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.spark.session import DRIVER_ROWS, PLAIN_JOBS
from anabranch.runtime.store.migrations import MOVES, How, MigrationFolder
from anabranch.testing.physical import PhysicalState, elements_of, violations

pytestmark = pytest.mark.spark

PATIENCE = 120.0
ADAPTIVE = "spark.sql.adaptive.enabled"


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
    with pytest.raises(PlanError, match="change 1 of this query is not over: switched"):
        run.migrate(counting(engine, 300))
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


@pytest.mark.parametrize("plain", ["true", "false"])
def test_a_session_that_plans_adaptively_changes_without_a_pause_and_keeps_its_setting(
    first_engine: Engine, tmp_path: Path, plain: str
) -> None:
    # Spark's own default, and all batches in tasks, which have to be told of the plan.
    session = first_engine.spark.newSession()
    for name, value in {ADAPTIVE: "true", DRIVER_ROWS: "0", PLAIN_JOBS: plain}.items():
        session.conf.set(name, value)
    with Engine(session, shards=2) as engine:
        declare(engine, tmp_path)
        run = counting(engine, 1500).start(tmp_path / "out")
        assert session.conf.get(ADAPTIVE) == "true"
        feed(run, tmp_path, range(4), rows=2_000)
        before = run.execution.query.runId
        migration = run.migrate(counting(engine, 400, least=500)).await_switched(PATIENCE)
        feed(run, tmp_path, range(4, 8), rows=2_000)
        migration.await_finished(PATIENCE)
        # Spark's query has never been started again: that would be a pause.
        assert run.execution.query.runId == before
        assert session.conf.get(ADAPTIVE) == "true"
        run.stop()
        at = migration.at
        assert at is not None
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


def test_another_version_of_a_user_operator_goes_on_with_its_state(
    engine: Engine, tmp_path: Path
) -> None:
    write_input(tmp_path / "in", 6)
    run = windows_by(engine, tmp_path / "in").start(tmp_path / "out")
    run.drain()
    stable = int(run.stable)
    migration = run.migrate(windows_by(engine, tmp_path / "in", MeanAdded)).await_switched(PATIENCE)
    assert migration.how == "state"
    # Windows that were settled are over at the promise of the source, not later.
    assert migration.at is not None
    assert stable <= migration.at <= 59 - 18
    write_input(tmp_path / "in", 12)
    run.drain()
    migration.await_finished(PATIENCE)
    run.stop()
    for instant in range(int(run.stable)):
        wanted = told_of_windows(tmp_path, instant, mean=instant >= migration.at)
        assert snapshot(run, instant) == wanted, instant
    assert_legal(tmp_path / "out")


def test_corrections_are_answered_by_the_query_of_their_time(
    engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    engine.sql(f"{DECLARED.format(folder=tmp_path)} LATE REVISE")
    run = counting(engine, 1500).start(tmp_path / "out")
    feed(run, tmp_path, range(4), rows=2_000)
    with pytest.raises(PlanError, match="by replay: a source is corrected") as raised:
        run.migrate(counting(engine, 400), how="replay")
    assert raised.value.where == run.name
    assert "how='clip'" in raised.value.hint
    migration = run.migrate(counting(engine, 400)).await_switched(PATIENCE)
    assert migration.how == "clip"
    assert migration.at is not None
    # While both plans run: corrections of what only the old one has seen.
    write_late(tmp_path, 100, since=300, until=3 * SPAN_OF_FILE)
    run.drain()
    feed(run, tmp_path, range(4, 9), rows=2_000)
    migration.await_finished(PATIENCE)
    # Long after the change: on both sides of T.
    write_late(tmp_path, 101, since=300, until=8 * SPAN_OF_FILE)
    run.drain()
    feed(run, tmp_path, range(9, 10), rows=2_000)
    run.stop()
    corrected = [each for each in run.revisions() if each["state"] == "committed"]
    assert corrected
    at = migration.at
    for instant in instants(int(run.stable), at, 1_000, 2_000, 4_000):
        old, new = answers(tmp_path, instant, 1500), answers(tmp_path, instant, 400)
        assert snapshot(run, instant) == (old if instant < at else new), instant
    assert_legal(tmp_path / "out")


def longest(log: Path, before: int) -> list[tuple[object, int, int]]:
    """The events of a log that end before an instant; they are the longest that there can be."""
    parts = [part for part in LogFolder(str(log)).parts() if isinstance(part, EventBatch)]
    there = PhysicalState.empty()
    assert list(violations((each for part in parts for each in elements_of(part)), there)) == []
    found = sorted(event for event, count in there.events.items() for _ in range(count))
    assert found == sorted(LogicalStream.of_batches(parts).events())
    return [event for event in found if event[2] < before]


def test_a_copy_that_a_merge_reads_changes_its_plan_and_no_event_differs(
    engine: Engine, tmp_path: Path
) -> None:
    declare(engine, tmp_path)
    query = counting(engine, 700)
    logs = [tmp_path / "copies" / name for name in ("a", "b")]
    runs = [query.canonical().start(log, share=False) for log in logs]

    def more(numbers: range) -> None:
        for number in numbers:
            write_file(tmp_path, number, 400)
            for run in runs:
                run.drain()

    more(range(2))
    # The same answer by another plan, and back again.
    text = "SELECT item, COUNT(*) AS n, SUM(price) AS total FROM Bid WINDOW(RANGE 700) WHERE item"
    script = tmp_path / "better.sql"
    script.write_text(
        f"{DECLARED.format(folder=tmp_path)};\n"
        f"{text} < 9 GROUP BY item UNION ALL {text} >= 9 GROUP BY item;"
    )
    words = ["migrate", str(logs[0]), str(script), "--how", "clip", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    more(range(2, 5))
    assert runs[0].migrate(query, how="replay").await_finished(PATIENCE).how == "replay"
    more(range(5, 6))
    for run in runs:
        run.stop()
    changes = MigrationFolder.of(f"{logs[0]}/_checkpoint")
    assert [each.state for each in changes.records()] == ["finished", "finished"]
    # What was taken over has been taken over.
    assert not any(name.startswith(MOVES) for name in changes.folder.names())
    stable = min(int(run.stable) for run in runs)
    assert stable > 5 * SPAN_OF_FILE
    one, other = (longest(log, stable) for log in logs)
    assert one == other
    assert len(one) > 500
    merged = str(tmp_path / "merged.jsonl")
    words = ["merge", *map(str, logs), "--to", merged, "--divergence", "fail"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.stderr
    found = LogicalStream.of_batches(list(read_batches(Path(merged))))
    for instant in instants(5 * SPAN_OF_FILE):
        assert sorted(found.snapshot(instant).elements()) == answers(tmp_path, instant, 700)


@pytest.mark.parametrize("how", ["clip", "replay"])
def test_a_coalesced_query_becomes_another_one_and_stays_coalesced(
    engine: Engine, tmp_path: Path, how: How
) -> None:
    declare(engine, tmp_path)
    run = counting(engine, 700).coalesce().start(tmp_path / "out")
    feed(run, tmp_path, range(2), rows=400)
    migration = run.migrate(counting(engine, 400, least=500).coalesce(), how=how)
    migration.await_switched(PATIENCE)
    assert migration.at is not None
    feed(run, tmp_path, range(2, 5), rows=400)
    migration.await_finished(PATIENCE)
    run.stop()
    for instant in instants(int(run.stable), migration.at):
        old, new = answers(tmp_path, instant, 700), answers(tmp_path, instant, 400, least=500)
        assert snapshot(run, instant) == (old if instant < migration.at else new), instant
    assert longest(tmp_path / "out", int(run.stable))


def write_late(folder: Path, number: int, *, since: int, until: int) -> None:
    """A file with rows that come much too late."""
    chance = random.Random(number)
    table = pa.table(
        {
            "item": pa.array([chance.randrange(20) for _ in range(40)], pa.int32()),
            "price": pa.array([chance.randrange(1000) for _ in range(40)], pa.int32()),
            "t": pa.array([chance.randrange(since, until) for _ in range(40)], pa.int64()),
        }
    )
    pq.write_table(table, folder / f"tmp-{number}")
    (folder / f"tmp-{number}").rename(folder / "in" / f"late-{number}.parquet")
