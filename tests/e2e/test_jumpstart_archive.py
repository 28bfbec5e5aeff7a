"""A better plan begins in the middle, from the archive, where the files of the source are gone."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.e2e.changed_queries import instants
from tests.e2e.revised_queries import assert_legal
from typer.testing import CliRunner

from anabranch import cutover
from anabranch.cli.app import app
from anabranch.engine import Engine
from anabranch.merging.logs import merge_logs
from anabranch.model.logical import LogicalStream
from anabranch.runtime.query.run import Run
from anabranch.runtime.sources.files.log_folder import LogFolder

pytestmark = pytest.mark.spark

SPAN = 100
KEPT = """
CREATE STREAM Bid (item INT, price INT, at INT) SOURCE '{folder}/bids/*.parquet'
  ORDERED BY at DELAY 10 ARCHIVE '{folder}/archive/bids' KEEP 100000 ROWS;
SELECT item, MAX(price) AS highest FROM Bid WINDOW(RANGE 50) GROUP BY item
"""
BETTER = """
CREATE STREAM Bid SOURCE '{folder}/archive/bids';
SELECT item, MAX(price) AS highest FROM Bid WINDOW(RANGE 50) WHERE item < 2 GROUP BY item
UNION ALL
SELECT item, MAX(price) AS highest FROM Bid WINDOW(RANGE 50) WHERE item >= 2 GROUP BY item
"""


def bids(folder: Path, number: int) -> None:
    """One more file, which nobody keeps; a copy of it tells what is right."""
    chance = random.Random(number)
    starts = sorted(number * SPAN + chance.randrange(SPAN) for _ in range(150))
    table = pa.table(
        {
            "item": pa.array([chance.randrange(5) for _ in starts], pa.int32()),
            "price": pa.array([chance.randrange(1000) for _ in starts], pa.int32()),
            "at": pa.array(starts, pa.int32()),
        }
    )
    for name in ("right", "tmp"):
        (folder / name).mkdir(exist_ok=True)
        pq.write_table(table, folder / name / f"{number}.parquet")
    (folder / "tmp" / f"{number}.parquet").rename(folder / "bids" / f"{number}.parquet")


def highest(folder: Path, at: int) -> list[tuple[int, int]]:
    return sorted(
        duckdb.connect()
        .execute(
            f"SELECT item, max(price) FROM '{folder}/right/*.parquet' "
            f'WHERE "at" <= {at} AND "at" + 50 > {at} GROUP BY item'
        )
        .fetchall()
    )


def copy_of(engine: Engine, folder: Path, name: str, text: str) -> Run:
    query = engine.sql(text.format(folder=folder))
    run: Run = query.canonical().start(to=folder / "copies" / name)
    return run


def test_a_better_plan_begins_from_the_archive(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "bids").mkdir()
    first = copy_of(engine, tmp_path, "first", KEPT)
    for number in range(5):
        bids(tmp_path, number)
        first.drain()
    for file in (tmp_path / "bids").iterdir():
        file.unlink()
    log = tmp_path / "copies" / "better"
    (tmp_path / "better.sql").write_text(BETTER.format(folder=tmp_path))
    words = ["jumpstart", str(tmp_path / "copies" / "first"), str(log)]
    result = CliRunner().invoke(app, [*words, "--script", str(tmp_path / "better.sql")])
    assert result.exit_code == 0, result.output
    since = LogFolder(str(tmp_path / "copies" / "first")).stable()
    assert 4 * SPAN < since < 5 * SPAN
    with Engine(engine.spark, shards=2) as other:
        better = copy_of(other, tmp_path, "better", BETTER)
        merged = merge_logs(other, tmp_path / "copies", tmp_path / "merged", case="r3")
        for number in range(5, 9):
            bids(tmp_path, number)
            first.drain()
            better.drain()
            merged.drain()
        # It has read the history, and what has come since.
        assert better.stable == first.stable
        cutover(tmp_path / "merged", tmp_path / "copies" / "first", log)
        bids(tmp_path, 9)
        first.drain()
        better.drain()
        merged.drain()
        for run in (better, merged):
            run.stop()
    first.stop()
    found = LogicalStream.of_batches(LogFolder(str(log)).read())
    every = LogicalStream.of_batches(LogFolder(str(tmp_path / "merged")).read())
    last = int(merged.stable)
    assert last > 9 * SPAN
    for instant in instants(last, int(since)):
        right = highest(tmp_path, instant)
        assert sorted(every.snapshot(instant).elements()) == right, instant
        if instant >= since:
            assert sorted(found.snapshot(instant).elements()) == right, instant
    assert_legal(tmp_path / "merged")


def test_a_query_that_only_keeps_the_feed_archives_all_columns(
    engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "bids").mkdir()
    stream, _ = KEPT.format(folder=tmp_path).split(";")
    keeper = engine.sql(f"{stream}; SELECT item FROM Bid WHERE FALSE").start(tmp_path / "keeper")
    for number in range(3):
        bids(tmp_path, number)
        keeper.drain()
    with Engine(engine.spark, shards=2) as other:
        copy = copy_of(other, tmp_path, "copy", BETTER)
        bids(tmp_path, 3)
        keeper.drain()
        copy.drain()
        copy.stop()
    keeper.stop()
    last = int(copy.stable)
    assert last > 3 * SPAN
    found = LogicalStream.of_batches(LogFolder(str(tmp_path / "copies" / "copy")).read())
    for instant in instants(last):
        assert sorted(found.snapshot(instant).elements()) == highest(tmp_path, instant), instant
