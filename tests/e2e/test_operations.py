"""What people who run queries need: idle sources, tables as output, metrics, a look into state."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.request import urlopen

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from tests.runtime.postgres import postgres_server
from typer.testing import CliRunner

from anabranch import ARRIVAL, Engine, Messages, Run
from anabranch.cli.app import app
from anabranch.errors import EngineError
from anabranch.runtime.query.state_view import view_state

pytestmark = pytest.mark.spark

ROWS = """{"insert": {"k": 1, "v": 10}, "start": 1, "end": 5}
{"insert": {"k": 2, "v": 20}, "start": 2, "end": 9}
{"stable": 3}
{"adjust": {"k": 2, "v": 20}, "start": 2, "end": 9, "new_end": 4}
{"insert": {"k": 1, "v": 30}, "start": 4}
{"stable": 6}
"""
SECOND = 1_000_000
PATIENCE = 60.0


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text(ROWS)
    return tmp_path / "rows.jsonl"


def until(condition: Callable[[], bool], run: Run) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert run.status == "running"
        assert time.monotonic() < deadline, run.metrics()[-3:]
        time.sleep(0.02)


def write_points(folder: Path, name: str, *seconds: int) -> None:
    folder.mkdir(exist_ok=True)
    times = pa.array([second * SECOND for second in seconds], pa.timestamp("us"))
    hidden = folder / f".{name}.parquet"
    pq.write_table(pa.table({"k": pa.array(range(len(seconds))), "t": times}), hidden)
    hidden.rename(folder / f"{name}.parquet")


@pytest.mark.parametrize("as_frame", [False, True])
def test_a_silent_source_holds_nobody_up(engine: Engine, tmp_path: Path, as_frame: bool) -> None:
    fast, slow = tmp_path / "fast", tmp_path / "slow"
    write_points(fast, "1", 10, 100)
    write_points(slow, "1", 10)
    source = engine.spark.readStream.schema("k BIGINT, t TIMESTAMP").parquet(str(slow))
    busy = engine.stream(fast, name="fast", start="t", delay=0)
    quiet = engine.stream(
        source if as_frame else slow,
        name="slow",
        start="t",
        delay=0,
        heartbeat="300 milliseconds",
    )
    query = busy.select("k").union(quiet.select("k"))
    with query.start(tmp_path / "log", checkpoint=tmp_path / "checkpoint") as run:
        until(lambda: run.stable >= 10 * SECOND + 600_000, run)
        write_points(slow, "2", 60)
        until(lambda: run.stable >= 60 * SECOND, run)
        reached = run.stable
    # A query that is taken up again promises no less, and the time between does not count.
    with query.start(tmp_path / "log", checkpoint=tmp_path / "checkpoint") as run:
        until(lambda: run.stable > reached, run)
        assert run.stable < reached + 30 * SECOND
        assert run.totals["sources"].get("slow", {"late": 0})["late"] == 0


def test_rows_get_the_time_of_their_arrival(engine: Engine, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "a.csv").write_text("k\n1\n2\n")
    before = time.time() * SECOND
    stream = engine.stream(
        rows, name="stamped", start=ARRIVAL, schema=pa.schema([("k", pa.int64())])
    )
    run = stream.start(tmp_path / "log", checkpoint=tmp_path / "checkpoint", available_now=True)
    run.await_end()
    (rows / "b.csv").write_text("k\n3\n")
    run = stream.start(tmp_path / "log", checkpoint=tmp_path / "checkpoint", available_now=True)
    run.await_end()
    found = [row for row in run.table(raw=True).to_pylist() if row["kind"] == "insert"]
    assert [row["k"] for row in found] == [1, 2, 3]
    assert before < found[0]["start"] == found[1]["start"] < found[2]["start"] == run.stable
    frame = engine.spark.readStream.schema("k BIGINT").option("header", True).csv(str(rows))
    with engine.stream(frame, name="frame", start=ARRIVAL).start(available_now=True) as run:
        run.await_end()
        elements = run.table(raw=True).to_pylist()
        starts = [row["start"] for row in elements if row["kind"] == "insert"]
    assert len(starts) == 3
    assert min(starts) > found[2]["start"]


def test_tables_of_events_on_spark(engine: Engine, rows: Path, tmp_path: Path) -> None:
    query = engine.stream(rows, name="tables", max_rows_per_batch=3).select("k", "v")
    expected = [(1, 10, 1, 5), (1, 30, 4, None), (2, 20, 2, 4)]
    run = query.start(f"delta:{tmp_path}/t#history", available_now=True)
    run.await_end()
    table = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pylist()
    found = [(row["k"], row["v"], row["valid_from"], row["valid_to"]) for row in table]
    assert sorted(found) == expected
    run = query.start(f"delta:{tmp_path}/log", available_now=True)
    run.await_end()
    kinds = DeltaTable(str(tmp_path / "log")).to_pyarrow_table().column("kind").to_pylist()
    assert sorted(kinds) == ["adjust", "insert", "insert", "insert", "stable", "stable"]


def test_a_table_of_postgres_on_spark(engine: Engine, rows: Path, tmp_path: Path) -> None:
    query = engine.stream(rows, name="postgres", max_rows_per_batch=3).select("k", "v")
    with postgres_server() as address:
        place = f"{address}&table=events&keep=current"
        run = query.start(place, checkpoint=tmp_path / "postgres", available_now=True)
        run.await_end()
        with psycopg.connect(address) as connection:
            held = connection.execute("SELECT k, v, valid_from, valid_to FROM events").fetchall()
        assert held == [(1, 30, 4, None)]


def test_messages_keep_their_keys(engine: Engine, rows: Path, tmp_path: Path) -> None:
    sent: list[tuple[bytes, bytes]] = []
    fails = [True]

    def send(messages: Sequence[tuple[bytes, bytes]]) -> None:
        sent.extend(messages)
        if fails.pop() if fails else False:
            raise ConnectionError("gone")

    query = engine.stream(rows, name="messages", max_rows_per_batch=3).select("k", "v")
    with pytest.raises(Exception, match="send failed: ConnectionError"):
        query.start(Messages(send), checkpoint=tmp_path / "c", available_now=True).await_end()
    first = list(sent)
    query.start(Messages(send), checkpoint=tmp_path / "c", available_now=True).await_end()
    assert sent[: len(first)] == sent[len(first) : 2 * len(first)] == first
    assert len(set(sent)) == 6
    keys = [key for key, _ in sent[len(first) :]]
    assert keys == sorted(keys)


def test_metrics_and_state_can_be_looked_at(engine: Engine, rows: Path, tmp_path: Path) -> None:
    stream = engine.stream(rows, name="watched", max_rows_per_batch=3)
    query = stream.group_by("k").agg(top="MAX(v)")
    run = query.start(tmp_path / "log", available_now=True)
    run.await_end()
    port = engine.serve_metrics()
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    of_run = [line for line in lines if f'query="{run.name}"' in line]
    assert f'anabranch_source_rows_total{{query="{run.name}",source="watched"}} 4.0' in of_run
    assert f'anabranch_up{{query="{run.name}"}} 0.0' in of_run
    with pytest.raises(EngineError, match="metrics cannot be served"):
        engine.serve_metrics(port)
    facts, shards = view_state(str(tmp_path / "log"), check=True)
    assert facts.shards == 2
    assert {each.stage for each in shards} == {"0-aggregate"}
    assert sum(each.rows for each in shards) > 0
    assert {each.batch for each in shards} == {1}
    shown = CliRunner().invoke(app, ["state", str(tmp_path / "log")])
    assert shown.exit_code == 0
    assert "Aggregate" in shown.output
    lines = CliRunner().invoke(app, ["state", str(tmp_path / "log"), "--json"]).output.splitlines()
    assert json.loads(lines[0])["stage"] == "0-aggregate"
