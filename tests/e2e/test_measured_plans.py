"""What was measured of a query decides which plan it gets: when it changes, and when it resumes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from tests.e2e.killed_changes import started, the_change
from tests.e2e.measured_query import BEFORE, CHANGED, CHRONONS, LEAST
from tests.e2e.revised_queries import assert_legal
from tests.e2e.test_kill_driver import PATIENCE, kill, wait_for

import anabranch as ab
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.bench.reoptimize import EARLY, LATER, QUERY, WINDOW, Feed, declare
from anabranch.engine import Engine
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.runtime.measure.running_plan import explain_running
from anabranch.runtime.query.run import Run
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.migrations import MigrationFolder, MigrationRecord
from anabranch.runtime.store.phases import HALT

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("measured_query.py")


def answer(folder: Path, instant: int, least: int = 0) -> Counter[tuple[int, ...]]:
    """What holds at an instant, by DuckDB."""
    rows = {
        name: f"(SELECT * FROM '{folder / name}/*.parquet' "
        f'WHERE "at" > {instant - WINDOW} AND "at" <= {instant})'
        for name in EARLY
    }
    found = duckdb.execute(
        f"SELECT A.v, B.v, C.v FROM {rows['A']} A, {rows['B']} B, {rows['C']} C "
        f"WHERE A.k = B.k AND B.j = C.j AND A.v >= {least}"
    ).fetchall()
    return Counter(found)


def joined_first(run: Run) -> list[str]:
    """The streams that the lowest join of the plan that runs joins."""
    [root] = run.execution.assembly.work.nodes
    joins = [each for each in root.walk() if len(each.inputs) == 2]
    return min((sources(each) for each in joins), key=len)


def sources(node: Node) -> list[str]:
    return sorted({each.name for each in node.walk() if isinstance(each, Source)})


def drained(run: Run, feed: Feed, batches: int) -> None:
    for _ in range(batches):
        feed.write(LATER)
        run.drain()


def awaited(run: Run, feed: Feed, is_so: Callable[[], bool], most: int = 20) -> None:
    """Feed until something holds."""
    for _ in range(most):
        if is_so():
            return
        drained(run, feed, 1)
    assert is_so()


def changes(home: Path) -> list[MigrationRecord]:
    return MigrationFolder.of(str(home)).records()


def test_a_changed_query_is_planned_by_what_was_measured(
    first_engine: Engine, tmp_path: Path
) -> None:
    feed = Feed(tmp_path, CHRONONS)
    feed.write(LATER)
    out, home = tmp_path / "out", tmp_path / "home"
    with Engine(first_engine.spark, shards=2) as engine:
        # They are declared the other way round.
        declare(engine, tmp_path, EARLY)
        run = engine.sql(QUERY).start(out, checkpoint=home)
        assert joined_first(run) == ["A", "B"]
        drained(run, feed, 3)
        migration = run.migrate(engine.sql(CHANGED)).await_switched(PATIENCE)
        awaited(run, feed, lambda: migration.state == "finished")
        assert joined_first(run) == ["B", "C"]
        run.stop()
    with Engine(first_engine.spark, shards=2) as engine:
        declare(engine, tmp_path, {"A": 3, "B": 2, "C": 1})
        run = engine.sql(CHANGED).start(out, checkpoint=home)
        assert joined_first(run) == ["B", "C"]
        # Nothing is better than that.
        drained(run, feed, 1)
        assert "run.migrate()" not in run.explain()
        at, last = migration.at, int(run.stable) - 1
        assert at is not None
        for instant in (0, WINDOW, at - 1, at, at + 9, last):
            if instant <= last:
                wanted = answer(tmp_path, instant, LEAST if instant >= at else 0)
                rows = run.snapshot(instant).select("a", "b", "c").collect()
                assert Counter(tuple(row) for row in rows) == wanted, instant
        # A query that joins is planned by it, too.
        joined = run.add(engine.sql(f"{QUERY} AND C.v >= {LEAST}"), "nothing")
        [_, node] = run.execution.assembly.work.nodes
        joins = [each for each in node.walk() if len(each.inputs) == 2]
        assert min((sources(each) for each in joins), key=len) == ["B", "C"]
        joined.leave()
        run.stop()
    assert_legal(out)


def test_a_query_that_resumes_tells_of_a_better_plan_or_takes_it(
    first_engine: Engine, tmp_path: Path
) -> None:
    feed = Feed(tmp_path, CHRONONS)
    feed.write(LATER)
    home = tmp_path / "home"
    with Engine(first_engine.spark, shards=2) as engine:
        declare(engine, tmp_path, EARLY)
        run = engine.sql(QUERY).start("nothing", checkpoint=home)
        drained(run, feed, 3)
        assert "run.migrate()" not in run.explain()
        run.stop()
    with Engine(first_engine.spark, shards=2) as engine:
        declare(engine, tmp_path, LATER)
        run = engine.sql(QUERY).start("nothing", checkpoint=home)
        # The plan of its state, whatever was declared and measured since.
        assert joined_first(run) == ["A", "B"]
        awaited(run, feed, lambda: "run.migrate()" in run.explain())
        assert run.explain_json()["better"][0]["gain"] > 1.5
        run.stop()
    assert "anabranch migrate CHECKPOINT --reoptimize" in explain_running(str(home))
    never_by_batches = ab.Reoptimize(batches=1_000)
    with Engine(first_engine.spark, shards=2, reoptimize=never_by_batches) as engine:
        declare(engine, tmp_path, EARLY)
        run = engine.sql(QUERY).start("nothing", checkpoint=home)
        drained(run, feed, 2)
        assert changes(home) == []
        run.stop()
    with Engine(first_engine.spark, shards=2, reoptimize=ab.Reoptimize(batches=8)) as engine:
        declare(engine, tmp_path, EARLY)
        run = engine.sql(QUERY).start("nothing", checkpoint=home)
        # Batches before the restart count.
        awaited(run, feed, lambda: bool(changes(home)), most=6)
        awaited(run, feed, lambda: changes(home)[-1].state == "finished")
        assert the_change(home).reoptimize
        assert joined_first(run) == ["B", "C"]
        assert "run.migrate()" not in run.explain()
        run.stop()


@pytest.mark.parametrize(
    "step",
    [
        "migration switched",
        *(
            pytest.param(each, marks=pytest.mark.faults)
            for each in ("migration planned", "migration seeded", "committed")
        ),
    ],
)
def test_a_query_that_was_planned_by_measurements_survives_a_kill(
    tmp_path: Path, step: str
) -> None:
    said, halted = tmp_path / "said", tmp_path / "halted"
    process = started(tmp_path, SCRIPT, **{HALT: f"{step}@{BEFORE}={halted}"})
    wait_for(process, halted.exists, said)
    kill(process)
    process = started(tmp_path, SCRIPT)
    assert process.wait(PATIENCE) == 0, said.read_text()[-3000:]
    record = the_change(tmp_path / "home")
    assert record.at is not None
    log = LogFolder(str(tmp_path / "log"))
    parts = [part for part in log.parts() if isinstance(part, EventBatch)]
    found = LogicalStream.of_batches(parts)
    last = int(parts[-1].stable) - 1
    for instant in (WINDOW, record.at - 1, record.at, record.at + 9, last):
        if instant <= last:
            wanted = answer(tmp_path, instant, LEAST if instant >= record.at else 0)
            assert Counter(found.snapshot(instant)) == wanted, instant
    assert_legal(tmp_path / "log")
