"""On Spark, batches of a query that is behind grow, and their results stay the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from anabranch import Engine, Stream
from anabranch.cli.app import app
from anabranch.errors import PlanError
from anabranch.runtime.query.run import Run
from anabranch.runtime.spark.session import BATCH_BYTES, BATCH_ROWS

pytestmark = pytest.mark.spark

FILES, ROWS, KEYS = 60, 2_000, 50


@contextmanager
def settings(engine: Engine, values: Mapping[str, int]) -> Iterator[None]:
    """Queries that start now have these settings."""
    for name, value in values.items():
        engine.spark.conf.set(name, str(value))
    try:
        yield
    finally:
        for name in values:
            engine.spark.conf.unset(name)


def write(folder: Path, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    for number in numbers:
        chance = np.random.default_rng(number)
        at = np.sort(chance.integers(number * 10_000, (number + 1) * 10_000, ROWS))
        table = pa.table({"k": chance.integers(0, KEYS, ROWS), "v": chance.random(ROWS), "at": at})
        pq.write_table(table, folder / f".{number}.parquet")
        (folder / f".{number}.parquet").rename(folder / f"{number}.parquet")


def count(engine: Engine, rows: Path, *, ends: bool) -> Stream:
    engine.stream(rows, name="S", start="at", delay=50, ends=ends, replace=True)
    query: Stream = engine.sql(
        "SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 5000 SLIDE 5000) GROUP BY k"
    )
    return query


def command(*words: str | Path) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def sizes(run: Run) -> list[int]:
    return [batch["rows_in"] for batch in run.metrics()]


def test_batches_grow_while_a_query_is_behind_and_their_results_are_the_same(
    engine: Engine, tmp_path: Path
) -> None:
    rows = tmp_path / "rows"
    write(rows, range(FILES))
    answers = []
    for name, limits in (
        ("grown", {BATCH_ROWS: ROWS}),
        ("fixed", {BATCH_ROWS: 4 * ROWS, BATCH_BYTES: 0}),
    ):
        with settings(engine, limits):
            checkpoint = tmp_path / f"{name}-checkpoint"
            run = count(engine, rows, ends=True).start(
                to=tmp_path / name, checkpoint=checkpoint, available_now=True
            )
            run.await_end()
        if name == "grown":
            assert sizes(run)[0] == ROWS
            assert max(sizes(run)) >= 4 * ROWS
            assert len(sizes(run)) < FILES // 2
            pattern = r"a batch takes up to [\d,]+ rows of a source: its fixed cost is \d+ ms"
            assert re.search(pattern, run.explain())
            assert run.explain_json()["size"]["rows"] >= 4 * ROWS
            assert re.search(pattern, command("explain", "--running", checkpoint))
        else:
            assert sizes(run) == [4 * ROWS] * (FILES // 4)
            assert "fixed cost" not in run.explain()
        command("check", tmp_path / name)
        found = run.snapshot(300_000).orderBy("k").collect()
        answers.append([(row["k"], row["n"]) for row in found])
    command("diff", tmp_path / "grown", tmp_path / "fixed")
    expected = duckdb.execute(
        f"SELECT k, COUNT(*) FROM '{rows}/*.parquet' WHERE \"at\" BETWEEN 295000 AND 299999 "
        "GROUP BY k ORDER BY k"
    ).fetchall()
    assert answers == [expected, expected]


def test_batches_take_what_is_there_when_a_query_keeps_up(engine: Engine, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    write(rows, range(1))
    with settings(engine, {BATCH_ROWS: 2 * ROWS}):
        run = count(engine, rows, ends=False).start(to=tmp_path / "out")
    for number in range(1, 5):
        run.drain()
        write(rows, range(number, number + 1))
    run.drain()
    run.stop()
    assert sizes(run) == [ROWS] * 5
    assert "fixed cost" not in run.explain()


def test_a_setting_that_is_not_a_number_is_refused(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path / "rows", range(1))
    engine.spark.conf.set(BATCH_ROWS, "many")
    try:
        with pytest.raises(PlanError, match="'many' is not a number of rows"):
            count(engine, tmp_path / "rows", ends=True).start(to=tmp_path / "out")
    finally:
        engine.spark.conf.unset(BATCH_ROWS)
