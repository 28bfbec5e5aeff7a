"""A query that changes its plan by itself answers as if it had not, and after a restart, too."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pytest
from tests.e2e.revised_queries import assert_legal

import anabranch as ab
from anabranch.bench.reoptimize import EARLY, LATER, QUERY, WINDOW, Feed, declare
from anabranch.engine import Engine
from anabranch.runtime.query.run import Run
from anabranch.runtime.store.migrations import MigrationFolder, MigrationRecord

pytestmark = pytest.mark.spark

CHRONONS = 60
MOST_BATCHES = 30


def changes(home: Path) -> list[MigrationRecord]:
    return MigrationFolder.of(str(home)).records()


def answer(folder: Path, instant: int) -> Counter[tuple[int, ...]]:
    """What holds at an instant, by DuckDB."""
    rows = {
        name: f"(SELECT * FROM '{folder / name}/*.parquet' "
        f'WHERE "at" > {instant - WINDOW} AND "at" <= {instant})'
        for name in EARLY
    }
    found = duckdb.execute(
        f"SELECT A.v, B.v, C.v FROM {rows['A']} A, {rows['B']} B, {rows['C']} C "
        "WHERE A.k = B.k AND B.j = C.j"
    ).fetchall()
    return Counter(found)


def answered(run: Run, instant: int) -> Counter[tuple[int, ...]]:
    return Counter(tuple(row) for row in run.snapshot(instant).select("a", "b", "c").collect())


def test_a_query_corrects_its_plan_and_its_answers_stay_right(
    first_engine: Engine, tmp_path: Path
) -> None:
    feed = Feed(tmp_path, CHRONONS)
    feed.write(EARLY)
    out, home = tmp_path / "out", tmp_path / "home"
    with Engine(first_engine.spark, shards=2, reoptimize=ab.Reoptimize(batches=2)) as engine:
        declare(engine, tmp_path)
        run = engine.sql(QUERY).start(out, checkpoint=home)
        for _ in range(2):
            feed.write(EARLY)
            run.drain()
        assert changes(home) == []
        before = run.explain()
        batches = 0
        while not any(each.state == "finished" for each in changes(home)):
            assert batches < MOST_BATCHES, changes(home)
            feed.write(LATER)
            run.drain()
            batches += 1
        feed.write(LATER)
        run.drain()
        (change,) = changes(home)
        assert change.reoptimize
        assert change.at is not None
        assert run.explain() != before
        run.stop()
    # The same text resumes with the plan that the query has changed to.
    with Engine(first_engine.spark, shards=2) as engine:
        declare(engine, tmp_path)
        feed.write(LATER)
        run = engine.sql(QUERY).start(out, checkpoint=home)
        run.drain()
        last = int(run.stable) - 1
        for instant in (0, WINDOW, change.at - 1, change.at, change.at + WINDOW // 2, last):
            if instant <= last:
                assert answered(run, instant) == answer(tmp_path, instant), instant
        assert any(answer(tmp_path, instant) for instant in (change.at - 1, change.at))
        run.stop()
    assert_legal(out)
