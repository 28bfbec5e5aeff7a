from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.engine import Engine, Stream
from anabranch.errors import OperatorError, PlanError, StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.files.stream_file import read_batches
from anabranch.model.logical import LogicalStream
from anabranch.runtime.query.run import Run
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.spark.session import ROWS_PER_TASK

pytestmark = pytest.mark.spark

BIDS = """{"insert": {"item": 1, "price": 80.0}, "start": 5, "end": 9}
{"insert": {"item": 2, "price": 50.0}, "start": 6, "end": 12}
{"stable": 6}
{"adjust": {"item": 1, "price": 80.0}, "start": 5, "end": 9, "new_end": 7}
{"insert": {"item": 1, "price": 90.0}, "start": 8, "end": 11}
{"insert": {"item": 1, "price": 10.0}, "start": 2, "end": 11}
{"stable": 12}
"""


@pytest.fixture
def bids(engine: Engine, tmp_path: Path) -> Stream:
    (tmp_path / "bids.jsonl").write_text(BIDS)
    return engine.stream(tmp_path / "bids.jsonl", name="bids", max_rows_per_batch=3)


def finish(run: Run) -> Run:
    assert run.await_end()
    assert run.status == "ended"
    return run


def meaning(batches: Iterator[EventBatch] | list[EventBatch]) -> LogicalStream:
    return LogicalStream.of_batches(batches)


def local(query: Stream, **options: Any) -> LogicalStream:
    return meaning(query.run_local(**options)._sink.batches())


def write_rows(folder: Path, number: int, rows: int = 50) -> None:
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(number)
    table = {
        "k": random.integers(0, 5, rows),
        "v": random.random(rows).round(3),
        "t": number * 10 + random.integers(-5, 10, rows),
    }
    path = folder / f"{number:03}.parquet"
    pq.write_table(pa.table(table), path)
    # Spark reads files by age, in no order those of one millisecond.
    os.utime(path, (1_700_000_000 + number,) * 2)


def test_a_query_goes_on_where_it_stopped(engine: Engine, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    for number in range(3):
        write_rows(rows, number)

    def query(engine: Engine) -> Stream:
        stream = engine.stream(rows, name="rows", start="t", delay=8, max_files_per_batch=1)
        return stream.window(7, slide=2).group_by("k").agg(n="COUNT(*)", top="MAX(v)", sum="SUM(v)")

    finish(query(engine).start(tmp_path / "log", available_now=True))
    for number in range(3, 5):
        write_rows(rows, number)
    again = finish(query(engine).start(tmp_path / "log", available_now=True))
    assert [batch["batch"] for batch in again.metrics()] == [3, 4]
    log = LogFolder(str(tmp_path / "log"))
    assert [entry.batch for entry in log.entries()] == [0, 1, 2, 3, 4]
    expected = query(Engine()).run_local()
    assert log.stable() == expected.stable == again.stable
    assert meaning(log.read()).agrees_with(meaning(expected._sink.batches())) is None
    at = int(expected.stable) - 3
    found = Counter(tuple(row) for row in again.snapshot(at).collect())
    table = expected.snapshot(at).to_pylist()
    assert found.keys() == {tuple(row.values()) for row in table} or len(found) == len(table)


def test_two_stages_write_a_stream_file(bids: Stream, tmp_path: Path) -> None:
    query = bids.group_by("item").agg(top="MAX(price)").agg(items="COUNT(*)", best="MAX(top)")
    run = finish(query.start(tmp_path / "out.jsonl", available_now=True))
    found = list(read_batches(tmp_path / "out.jsonl"))
    assert meaning(found) == local(query)
    assert found[-1].stable == run.stable == 12
    assert [batch["late"] for batch in run.metrics()] == [0, 1, 0]
    stages = run.metrics()[-1]["stages"]
    assert list(stages) == ["0-aggregate", "1-aggregate"]
    assert run.metrics()[1]["sources"]["bids"]["rows"] == 3


def test_a_plan_without_memory_passes_stables_on(bids: Stream) -> None:
    query = bids.where("price > 20").select("item", "price * 2 AS double")
    run = finish(query.start(available_now=True))
    assert meaning(run._sink.batches()) == local(query)
    kinds = run.table().column("kind").to_pylist()
    assert (kinds.count("stable"), kinds.count("adjust")) == (2, 1)
    assert [row.double for row in run.snapshot(8).orderBy("double").collect()] == [100.0, 180.0]


def test_final_emission_takes_nothing_back(bids: Stream) -> None:
    query = bids.group_by("item").agg(n="COUNT(*)")
    run = finish(query.start(emit="final", available_now=True))
    assert set(run.table().column("kind").to_pylist()) == {"insert", "stable"}
    assert meaning(run._sink.batches()).agrees_with(local(query), before=12) is None


def test_a_function_gets_every_batch(bids: Stream) -> None:
    seen: list[tuple[int, int]] = []
    query = bids.agg(n="COUNT(*)")
    finish(
        query.start(
            foreach=lambda table, batch: seen.append((batch, table.num_rows)), available_now=True
        )
    )
    assert [batch for batch, _ in seen] == [0, 1, 2]


def test_a_function_that_fails_ends_the_query_with_its_error(bids: Stream) -> None:
    def refuse(table: pa.Table, batch: int) -> None:
        raise ValueError("not today")

    run = bids.start(foreach=refuse, available_now=True)
    with pytest.raises(OperatorError, match="refuse failed: ValueError: not today"):
        run.await_end()
    assert run.status == "failed"


def test_a_query_is_a_streaming_dataframe_too(engine: Engine, bids: Stream, tmp_path: Path) -> None:
    query = bids.group_by("item").agg(top="MAX(price)")
    frame = query.to_df(checkpoint=tmp_path / "state")
    assert frame.isStreaming
    times, order = ["kind", "start", "end", "new_end"], ["_batch", "_position"]
    assert frame.columns == [*times, "item", "top", *order]
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "spark"))
    writer.format("parquet").option("path", str(tmp_path / "out")).trigger(
        availableNow=True
    ).start().awaitTermination()
    # Its rows are a source like any other.
    back = engine.stream(engine.spark.read.parquet(str(tmp_path / "out")), name="back")
    run = finish(back.start(available_now=True))
    assert meaning(run._sink.batches()) == local(query)


def test_a_streaming_dataframe_is_a_source(engine: Engine, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    for number in range(3):
        write_rows(rows, number)
    frame = (
        engine.spark.readStream.schema("k long, v double, t long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(rows))
    )

    def query(stream: Stream) -> Stream:
        few = stream.where("v > 0.3").select("k + 1 AS key", "v")
        return few.window(5).group_by("key").agg(n="COUNT(*)", low="MIN(v)")

    files = Engine().stream(rows, start="t", delay=20, max_files_per_batch=1)
    for delay in (20, None):
        stream = engine.stream(frame, name="frame", replace=True, start="t", delay=delay)
        run = finish(query(stream).start(available_now=True))
        assert meaning(run._sink.batches()) == local(query(files))
        assert (run.stable > 0) == (delay is not None)
        counted = sum(batch["rows_in"] for batch in run.metrics())
        # Without a delay the filter runs in Spark, and fewer rows come.
        assert counted == 150 if delay is not None else counted < 150


def test_elements_of_a_dataframe_keep_their_promises(engine: Engine, tmp_path: Path) -> None:
    schema = "kind string, start long, end long, new_end long, a long"
    batches = [
        [("insert", 1, 6, None, 1), ("insert", 4, None, None, 2), ("stable", 3, None, None, None)],
        [("insert", 2, 9, None, 3), ("adjust", 4, None, 8, 2), ("stable", 9, None, None, None)],
    ]
    for number, rows in enumerate(batches):
        frame = engine.spark.createDataFrame(rows, schema).coalesce(1)
        frame.write.parquet(str(tmp_path / f"in/{number}"))
    expected = LogicalStream.of([((1, 1), 1, 6), ((2, 1), 4, 8)])
    stream = engine.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    frame = stream.option("latestFirst", "false").parquet(str(tmp_path / "in/*"))
    query = engine.stream(frame, name="elements").where("a < 9").group_by("a").agg(n="COUNT(*)")
    run = finish(query.start(available_now=True))
    assert meaning(run._sink.batches()) == expected
    assert run.stable == 9
    assert sum(batch["late"] for batch in run.metrics()) == 1


def test_timestamps_are_understood_everywhere(engine: Engine, tmp_path: Path) -> None:
    moments = pa.array([1_000_000, 2_500_000, 61_000_000], pa.timestamp("us"))
    pq.write_table(pa.table({"k": [1, 1, 1], "ts": moments}), tmp_path / "a.parquet")
    stream = engine.stream(tmp_path / "a.parquet", start="ts", delay="5 seconds")
    run = finish(
        stream.window("1 minute").agg(n="COUNT(*)").start(tmp_path / "o.jsonl", available_now=True)
    )
    assert [row.n for row in run.snapshot("1970-01-01 00:00:30").collect()] == [2]
    assert '"start": "1970-01-01T00:00:01"' in (tmp_path / "o.jsonl").read_text()
    frame = engine.spark.read.parquet(str(tmp_path / "a.parquet"))
    same = engine.stream(frame, name="same", start="ts").window("1 minute").agg(n="COUNT(*)")
    assert meaning(finish(same.start(available_now=True))._sink.batches()) == meaning(
        list(read_batches(tmp_path / "o.jsonl"))
    )


def test_a_growing_file_is_followed_until_the_query_is_stopped(
    engine: Engine, tmp_path: Path
) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text('{"insert": {"a": 1}, "start": 1, "end": 5}\n')
    stream = engine.stream(file, name="growing")
    with stream.agg(n="COUNT(*)").start() as run:
        run.drain()
        assert run.table().num_rows == 1
        with file.open("a") as out:
            out.write('{"insert": {"a": 2}, "start": 2, "end": 9}\n{"stable": 4}\n')
        deadline = time.monotonic() + 60
        while run.stable < 4 and time.monotonic() < deadline:
            run.drain()
        assert run.stable == 4
        assert [row.n for row in run.snapshot(3).collect()] == [2]
    assert run.status == "ended"


def test_one_query_reads_the_log_of_another(engine: Engine, bids: Stream, tmp_path: Path) -> None:
    finish(bids.group_by("item").agg(top="MAX(price)").start(tmp_path / "a", available_now=True))
    second = engine.stream(tmp_path / "a", name="tops").agg(best="MAX(top)")
    run = finish(second.start(available_now=True))
    assert run.stable == 12
    assert meaning(run._sink.batches()) == local(
        bids.group_by("item").agg(top="MAX(price)").agg(best="MAX(top)")
    )


def test_two_sources_of_different_kinds_meet(engine: Engine, bids: Stream) -> None:
    more = pa.table({"item": [2, 3], "price": [70.0, 5.0], "t": [6, 7]})
    other = engine.stream(engine.spark.createDataFrame(more), name="more", start="t")
    query = bids.union(other.select("item", "price")).group_by("item").agg(top="MAX(price)")
    run = finish(query.start(available_now=True))
    assert run.stable == 12
    tops = {row.item: row.top for row in run.snapshot(6).collect()}
    assert tops == {1: 80.0, 2: 70.0}


def test_versions_plans_and_runs_do_not_pile_up(engine: Engine, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    for number in range(60):
        write_rows(rows, number, rows=5)
    stream = engine.stream(rows, name="many", start="t", delay=20, max_files_per_batch=1)
    counts: dict[int, int] = {}
    state = tmp_path / "checkpoint"

    def count(table: pa.Table, batch: int) -> None:
        own = [state / "state", state / "planned"]
        counts[batch] = sum(1 for folder in own for file in folder.rglob("*") if file.is_file())

    query = stream.window(10).group_by("k").agg(n="COUNT(*)").agg(keys="COUNT(*)")
    run = finish(query.start(foreach=count, checkpoint=state, available_now=True))
    assert len(counts) == 60
    early, late = (max(counts[b] for b in range(*span)) for span in ((20, 40), (40, 60)))
    assert late <= early + 5
    rows_held = [
        sum(stage["state_rows"] for stage in batch["stages"].values()) for batch in run.metrics()
    ]
    assert max(rows_held[40:]) < 2 * max(rows_held[10:30])


@pytest.mark.parametrize(
    ("text", "options", "kind", "what"),
    [
        (
            '{"insert": {"a": 1}, "start": 5}\n{"insert": {"b": 1}, "start": 5}\n',
            {},
            StreamError,
            "unknown column 'b'",
        ),
        (
            '{"insert": {"a": 1}, "start": 5}\n{"stable": 6}\n{"insert": {"a": 1}, "start": 5}\n',
            {"late": "fail"},
            StreamError,
            "too late",
        ),
        (
            '{"adjust": {"a": 1}, "start": 5, "end": 9, "new_end": 7}\n',
            {},
            StreamError,
            "never inserted",
        ),
    ],
)
def test_what_a_worker_finds_wrong_reaches_the_user(
    engine: Engine, tmp_path: Path, text: str, options: Any, kind: type[Exception], what: str
) -> None:
    (tmp_path / "s.jsonl").write_text(text)
    schema = pa.schema([("a", pa.int64())])
    stream = engine.stream(tmp_path / "s.jsonl", schema=schema, **options)
    run = stream.group_by("a").agg(n="COUNT(*)").start(available_now=True)
    with pytest.raises(kind, match=what) as raised:
        run.await_end()
    assert "\tat " not in str(raised.value)
    assert "Traceback" not in str(raised.value)
    assert run.status == "failed"


def test_a_checkpoint_belongs_to_one_query_that_runs_once(
    engine: Engine, bids: Stream, tmp_path: Path
) -> None:
    query = bids.group_by("item").agg(n="COUNT(*)")
    with query.start(checkpoint=tmp_path / "c") as run:
        with pytest.raises(PlanError, match="already running"):
            query.start(checkpoint=tmp_path / "c")
        run.drain()
    with pytest.raises(PlanError, match="another query"):
        bids.agg(n="COUNT(*)").start(checkpoint=tmp_path / "c")
    with pytest.raises(PlanError, match="cannot resume"):
        query.start(checkpoint=tmp_path / "c")


def test_a_setting_that_is_no_number_is_refused(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"insert": {"a": 1}, "start": 1}\n')
    engine.spark.conf.set(ROWS_PER_TASK, "many")
    try:
        with pytest.raises(PlanError, match="'many' is not a number of rows"):
            engine.stream(tmp_path / "rows.jsonl").start(to=tmp_path / "log")
    finally:
        engine.spark.conf.set(ROWS_PER_TASK, "1")
