"""Batches give the same in the driver, as plain jobs of Spark, and as its DataFrame."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.e2e.placement import share

from anabranch import Engine, Stream
from anabranch.errors import PlanError, StreamError
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.spark.session import DRIVER_ROWS, PLAIN_JOBS
from anabranch.runtime.thresholds import thresholds

pytestmark = pytest.mark.spark

FILES, ROWS, KEYS = 6, 20_000, 50
QUERIES = {
    "filter": "SELECT k, v FROM S WHERE v > 0.9",
    "count": "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM S WINDOW(RANGE 5000) GROUP BY k",
    "total": "SELECT COUNT(*) AS n, MAX(v) AS most FROM S WINDOW(RANGE 5000)",
    "join": "SELECT a.k AS k, a.v AS v, b.v AS w FROM S WINDOW(RANGE 500) AS a, "
    "S WINDOW(RANGE 500) AS b WHERE a.k = b.k AND a.v > 0.9 AND b.v < 0.1",
    "distinct": "SELECT DISTINCT k FROM S WINDOW(RANGE 300)",
    "two": "SELECT MAX(n) AS most FROM (SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 900) "
    "GROUP BY k) AS c",
}
"""No stage with memory, one, one shard only, two sides, an operator of its own, two stages."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of rows that come a little out of order; some of them are late."""
    folder = tmp_path_factory.mktemp("rows")
    chance = np.random.default_rng(5)
    for file in range(FILES):
        at = np.sort(chance.integers(file * 10 * ROWS, (file + 1) * 10 * ROWS, ROWS))
        at -= chance.integers(0, 60, ROWS)
        table = {"k": chance.integers(0, KEYS, ROWS), "v": chance.random(ROWS), "at": at}
        pq.write_table(pa.table(table), folder / f"{file}.parquet")
    return folder


def declared(engine: Engine, rows: Path, name: str) -> Stream:
    engine.stream(
        rows, name="S", start="at", delay=50, max_files_per_batch=1, ends=True, replace=True
    )
    query: Stream = engine.sql(QUERIES[name])
    return query


def contents(log: Path) -> list[Any]:
    """Everything that a log holds, in its order."""
    return [
        (
            entry.batch,
            entry.stable,
            [pq.read_table(log / file.name) for file in entry.files],
        )
        for entry in LogFolder(str(log)).entries()
    ]


@pytest.mark.parametrize("name", list(QUERIES))
def test_all_ways_write_the_same_log(engine: Engine, rows: Path, tmp_path: Path, name: str) -> None:
    found = []
    for way, (most, plain) in enumerate(((0, True), (0, False), (1_000_000, True))):
        with share(engine.spark, most, plain=plain):
            run = declared(engine, rows, name).start(tmp_path / f"{way}", available_now=True)
        run.await_end()
        # On a busy machine the driver may leave later batches to tasks.
        ran = [batch["ran"] for batch in run.metrics()]
        assert ran[:3] == ["driver" if most else "tasks"] * 3
        assert sum(batch["late"] for batch in run.metrics()) > 0
        seen = [row for one in run._query.recentProgress for row in one.observedMetrics.values()]
        told = any(row["rows_in"] is not None for row in seen)
        assert told == (not plain and name != "filter")
        found.append(contents(tmp_path / f"{way}"))
    with thresholds(SIDE_BY_SIDE_FROM_ROWS=1), share(engine.spark, 1_000_000, parts_of=3_000):
        run = declared(engine, rows, name).start(tmp_path / "threads", available_now=True)
        run.await_end()
    assert [batch["ran"] for batch in run.metrics()][:3] == ["driver"] * 3
    found.append(contents(tmp_path / "threads"))
    assert found[0] == found[1] == found[2] == found[3]
    assert sum(part.num_rows for _, _, parts in found[0] for part in parts) > 100


def test_a_query_may_change_places_with_every_start(
    engine: Engine, rows: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, file in enumerate(sorted(rows.iterdir())):
        (folder / file.name).symlink_to(file)
        engine.stream(folder, name="S", start="at", delay=50, replace=True)
        query = engine.sql("SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 5000) GROUP BY k")
        in_driver = number % 3 == 1
        with share(engine.spark, 1_000_000 * in_driver, plain=number % 3 == 0):
            run = query.start(tmp_path / "log", available_now=True)
        run.await_end()
        assert [batch["ran"] for batch in run.metrics()] == ["driver" if in_driver else "tasks"]
    instant = 5 * 10 * ROWS
    got = run.snapshot(instant).toArrow().sort_by("k").to_pylist()
    asked = duckdb.sql(
        f"SELECT k, COUNT(*) AS n FROM '{rows}/*.parquet' WHERE \"at\" > {instant - 5000} "
        f'AND "at" <= {instant} GROUP BY k ORDER BY k'
    )
    assert asked is not None
    want = asked.to_arrow_table()
    # Rows that were late are not in the answer, and a window of the answer may miss them.
    late = sum(batch["late"] for batch in run.metrics())
    assert late == run.metrics()[-1]["late"]
    assert [row["k"] for row in got] == want.column("k").to_pylist()
    missing = sum(want.column("n").to_pylist()) - sum(row["n"] for row in got)
    assert 0 <= missing < 200


def test_larger_batches_go_to_tasks_and_smaller_ones_to_the_driver(
    engine: Engine, rows: Path, tmp_path: Path
) -> None:
    for most, where in ((ROWS - 1, "tasks"), (ROWS, "driver")):
        with share(engine.spark, most):
            run = declared(engine, rows, "count").start(tmp_path / f"{most}", available_now=True)
        run.await_end()
        assert run.metrics()[0]["ran"] == where
        (places,) = (each for each in run.explain().splitlines() if "ran in the driver" in each)
        assert re.findall(r"\d+", places) == (
            ["0", str(FILES)] if where == "tasks" else [str(FILES), "0"]
        )


def test_code_of_users_stays_in_tasks(engine: Engine, rows: Path, tmp_path: Path) -> None:
    import anabranch as ab

    @ab.udf
    def twice(v: float) -> float:
        return 2 * v

    engine.register(twice)
    engine.stream(rows, name="S", start="at", delay=50, replace=True)
    with share(engine.spark, 1_000_000):
        run = engine.sql("SELECT twice(v) AS w FROM S WHERE k = 1").start(
            tmp_path / "log", available_now=True
        )
    run.await_end()
    assert {batch["ran"] for batch in run.metrics()} == {"tasks"}


def test_an_error_in_the_driver_is_the_same_error(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"adjust": {"k": 1}, "start": 5, "end": 9, "new_end": 7}\n')
    said = set()
    for most in (0, 1_000):
        stream = engine.stream(file, name="S", replace=True)
        with share(engine.spark, most):
            run = stream.agg(n="COUNT(*)").start(tmp_path / f"{most}", available_now=True)
        with pytest.raises(StreamError) as problem:
            run.await_end()
        said.add(str(problem.value))
    assert len(said) == 1


def test_a_setting_that_is_no_number_is_refused(engine: Engine, rows: Path, tmp_path: Path) -> None:
    query = declared(engine, rows, "count")
    engine.spark.conf.set(DRIVER_ROWS, "many")
    try:
        with pytest.raises(PlanError, match="'many' is not a number of rows"):
            query.start(tmp_path / "log", available_now=True)
    finally:
        engine.spark.conf.set(DRIVER_ROWS, "0")


def test_a_setting_that_is_neither_true_nor_false_is_refused(
    engine: Engine, rows: Path, tmp_path: Path
) -> None:
    query = declared(engine, rows, "count")
    engine.spark.conf.set(PLAIN_JOBS, "perhaps")
    try:
        with pytest.raises(PlanError, match="'perhaps' is neither true nor false"):
            query.start(tmp_path / "log", available_now=True)
    finally:
        engine.spark.conf.unset(PLAIN_JOBS)
