from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.algebra.source import Source
from anabranch.algebra.union import Union
from anabranch.engine import Engine
from anabranch.errors import PlanError, QueryError
from anabranch.model import clock as clocks
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Insert, batch_of
from anabranch.model.time import SECOND, Duration
from anabranch.runtime.sources.files.planned_parts import CLOCK
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.files.reader import read_split
from anabranch.runtime.sources.spec import ARRIVAL, FileSource, Promise, Shape
from anabranch.runtime.store.folder import Folder

SCHEMA = pa.schema([("a", pa.int64())])


class Clock:
    """Time goes on when the test says so; in microseconds."""

    def __init__(self) -> None:
        self.time = 5_000_000

    def nanoseconds(self) -> int:
        return self.time * 1000

    def microseconds(self) -> int:
        return self.time


def planner(tmp_path: Path, clock: Clock, *sources: FileSource, **heartbeats: int) -> FilePlanner:
    return FilePlanner(
        sources,
        Folder.at(str(tmp_path / "plan")),
        2,
        heartbeats=heartbeats,
        clock=clock.nanoseconds,
        now=clock.microseconds,
    )


def stamped(path: Path) -> FileSource:
    return FileSource(
        promise=Promise(source="s", delay=Duration(0), stamped=True),
        path=str(path),
        form="csv",
        schema=SCHEMA,
        stored=SCHEMA,
        shape=Shape(start=ARRIVAL),
    )


def test_time_that_passes_is_planned_like_rows(tmp_path: Path) -> None:
    clock = Clock()
    plan = planner(tmp_path, clock, s=100, other=500)
    assert plan.latest(0) == 0
    clock.time += 99
    assert plan.latest(0) == 0
    clock.time += 1
    assert plan.latest(0) == 1
    (first, second) = plan.parts(0, 1)
    assert (first.source, first.number, first.passed) == ("s", CLOCK, 100)
    assert (second.source, second.passed) == ("other", 100)
    assert plan.latest(1) == 1
    clock.time += 250
    assert plan.latest(1) == 2
    assert [part.passed for part in plan.parts(0, 2)] == [350, 350]


def test_time_between_two_lives_does_not_count(tmp_path: Path) -> None:
    clock = Clock()
    plan = planner(tmp_path, clock, s=100)
    clock.time += 100
    assert plan.latest(0) == 1
    clock.time += 1_000_000
    again = planner(tmp_path, clock, s=100)
    assert [part.passed for part in again.parts(0, 1)] == [100]
    assert again.latest(1) == 1


def test_what_is_there_already_waits_for_nobody(tmp_path: Path) -> None:
    clock = Clock()
    plan = planner(tmp_path, clock, s=100)
    plan.freeze()
    clock.time += 1000
    assert plan.latest(0) == 0


def rows(*starts: int) -> list[EventBatch]:
    return [batch_of([Insert({"a": start}, start, start + 1) for start in starts], SCHEMA)]


@pytest.fixture
def two(sharded: Callable[..., Any]) -> Any:
    promises = {
        "fast": Promise(source="fast", delay=Duration(0)),
        "slow": Promise(
            source="slow",
            delay=Duration(0),
            heartbeat=Duration(10 * SECOND),
            clock=clocks.Clock(SECOND),
        ),
    }
    fast, slow = (Source(name=name, schema=SCHEMA) for name in ("fast", "slow"))
    node = Union(inputs=(fast, slow))
    return sharded(node, promises=promises)


def test_a_silent_source_goes_on_with_the_clock(two: Any) -> None:
    assert two.step({"fast": rows(3), "slow": rows(2)}).stable == 2
    assert two.step({"fast": rows(30)}).stable == 2
    assert two.step({"fast": rows(31)}, passed={"slow": 9 * SECOND}).stable == 2
    assert two.step({}, passed={"slow": SECOND + 300_000}).stable == 12
    # What is less than a step is not forgotten, and the next time it has to wait again.
    assert two.step({}, passed={"slow": 9 * SECOND + 600_000}).stable == 12
    assert two.step({}, passed={"slow": 100_000}).stable == 22
    assert two.step({"fast": rows(90)}, passed={"slow": 40 * SECOND}).stable == 62


def test_a_row_ends_the_silence(two: Any) -> None:
    assert two.step({"fast": rows(50), "slow": rows(2)}).stable == 2
    assert two.step({}, passed={"slow": 9 * SECOND}).stable == 2
    assert two.step({"slow": rows(4)}, passed={"slow": 5 * SECOND}).stable == 4
    assert two.step({}, passed={"slow": 9 * SECOND}).stable == 4
    assert two.step({}, passed={"slow": 1 * SECOND}).stable == 14


def test_a_row_behind_the_clock_is_late(two: Any) -> None:
    two.step({"fast": rows(50), "slow": rows(2)})
    two.step({}, passed={"slow": 10 * SECOND})
    assert len(two.step({"slow": rows(11, 12)})) == 1
    (counted,) = [each.sources["slow"] for each in two.heads[0].counters if each.sources]
    assert (counted.late, counted.reached) == (1, 12)


def test_before_its_first_row_a_source_is_waited_for(two: Any) -> None:
    assert two.step({"fast": rows(50)}, passed={"slow": 99 * SECOND}).stable < 0


def test_rows_without_a_time_get_that_of_their_arrival(tmp_path: Path) -> None:
    clock = Clock()
    folder = tmp_path / "rows"
    folder.mkdir()
    source = stamped(folder)
    plan = planner(tmp_path, clock, source)
    (folder / "a.csv").write_text("a\n1\n2\n")
    assert plan.latest(0) == 1
    # The clock goes back, time does not.
    clock.time -= 1_000
    (folder / "b.csv").write_text("a\n3\n")
    assert plan.latest(1) == 2
    plan = planner(tmp_path, clock, source)
    (folder / "c.csv").write_text("a\n4\n")
    assert plan.latest(2) == 3
    found = [
        (value, int(start))
        for part in plan.parts(0, 3)
        for split in part.splits
        for came in read_split(source, split, ["a"])
        for value, start in zip(came.batch.payload.column("a").to_pylist(), came.batch.start)
    ]
    assert found == [(1, 5_000_000), (2, 5_000_000), (3, 5_000_001), (4, 5_000_002)]


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_sql_without_ordered_by_stamps_rows(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"rows.{form}"
    if form == "parquet":
        pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), path)
    elif form == "csv":
        path.write_text("a,b\n1,x\n2,y\n")
    else:
        path.write_text(
            "".join(json.dumps({"a": a, "b": b}) + "\n" for a, b in ((1, "x"), (2, "y")))
        )
    engine = Engine()
    engine.sql(f"CREATE STREAM S (a INT, b STRING) SOURCE '{path}'")
    query = engine.sql("SELECT COUNT(*) AS n FROM S WINDOW(RANGE 1 DAY)")
    run = query.run_local()
    times = run.table(raw=True).to_pylist()
    assert (times[0]["kind"], times[0]["n"]) == ("insert", 2)
    assert run.stable >= times[0]["start"] > 1_700_000_000_000_000


def test_a_delay_makes_no_sense_for_rows_that_are_stamped(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n")
    with pytest.raises(PlanError, match="no meaning for rows that are timed by their arrival"):
        Engine().sql(f"CREATE STREAM S (a INT) SOURCE '{tmp_path / 'rows.csv'}' DELAY 5 SECONDS")


def test_a_heartbeat_of_whole_numbers_needs_a_chronon(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,t\n1,1\n")
    text = f"CREATE STREAM S (a INT, t INT) SOURCE '{tmp_path / 'rows.csv'}' ORDERED BY t"
    with pytest.raises(PlanError, match="needs a declared chronon"):
        Engine().sql(f"{text} HEARTBEAT 5 SECONDS")
    Engine().sql(f"{text} HEARTBEAT 5 SECONDS CHRONON 1 SECOND")
    with pytest.raises(QueryError, match="must be a duration above 0"):
        Engine().sql(f"{text} HEARTBEAT 0 CHRONON 1 SECOND")
