"""Copies are merged on Spark: compatible after every batch, whoever comes and goes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.merge.histories import ADJUSTS, INSERTS, LAGS
from typer.testing import CliRunner

import anabranch as ab
from anabranch import Engine, LogicalStream, Run, Stream, cutover, jumpstart
from anabranch.algebra.analysis.merge_case import CASES, Case
from anabranch.cli.app import app
from anabranch.errors import PlanError
from anabranch.merging.feedback import settled_of, tell
from anabranch.merging.logs import merge_logs
from anabranch.model.elements import Adjust, Insert, Stable, element_json
from anabranch.model.files.stream_file import read_batches
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.testing import MERGE_CASES, MergeCase, MergeScript, MergeWatch, make_script
from anabranch.testing.merge.oracle import unsettled
from anabranch.testing.physical import Element, Move, elements_of, stable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("payload", pa.string())])
QUERY = """
CREATE OR REPLACE STREAM rows (k INT, v INT, ts INT)
  SOURCE '{folder}/rows/*.jsonl' ORDERED BY ts DELAY 12;
SELECT k, COUNT(*) AS n, SUM(v) AS total FROM rows WINDOW(RANGE 20 SLIDE 10) GROUP BY k
"""


def line(element: Element) -> str:
    """An element as a line of a stream file."""
    plain: Any
    if not isinstance(element, Move):
        plain = Stable(element.time)
    elif element.end == element.start:
        plain = Insert(dict(zip(SCHEMA.names, element.payload)), element.start, element.new_end)
    else:
        payload = dict(zip(SCHEMA.names, element.payload))
        plain = Adjust(payload, element.start, element.end, element.new_end)
    return json.dumps(element_json(plain)) + "\n"


def one_life_each(case: MergeCase, seed: int) -> MergeScript:
    """A script in which copies come once, from the beginning on, and one gets to the end."""
    while True:
        script = make_script(case, Random(seed).randrange, max_inputs=3, gaps=False)
        attached = [(each[1], each[2]) for each in script.actions if each[0] == "attach"]
        names = [name for name, _ in attached]
        whole = len(names) == len(set(names)) and all(t == BEGINNING for _, t in attached)
        left = {each[1] for each in script.actions if each[0] == "detach"}
        told = [(each[1], each[2]) for each in script.actions if each[0] == "element"]
        ends = {name for name, element in told if element == stable(FOREVER)} - left
        if whole and ends and len(names) > 1 and len(script.history) > 3:
            return script
        seed += 1000


class Log:
    """What a run has written since it was last looked at."""

    def __init__(self, folder: Path) -> None:
        self.log = LogFolder(str(folder))
        self.seen = 0
        self.stable = int(BEGINNING)

    def news(self) -> list[Element]:
        found: list[Element] = []
        batches = list(self.log.read())
        for batch in batches[self.seen :]:
            found += elements_of(batch)
            if batch.stable > self.stable:
                self.stable = int(batch.stable)
                found.append(stable(self.stable))
        self.seen = len(batches)
        return found


class Watched:
    """The output of a merge, and what looks at it."""

    def __init__(self, place: Path, case: MergeCase, *, is_default: bool) -> None:
        self.log = Log(place)
        laconic = case == "R3" and is_default
        self.watch = MergeWatch(multiset=case in ("R1", "R4"), laconic=laconic)


def policies(case: MergeCase) -> list[dict[str, Any]]:
    """All that the case allows."""
    lags = [{} if not lag else {"lag": lag} for lag in LAGS]
    if case not in ("R3", "R4"):
        return lags
    pairs = [{"inserts": a, "adjusts": b} for a in INSERTS for b in ADJUSTS]
    return [{**pair, **lag} for pair, lag in zip(pairs, cycle([*lags, {}]))]


@pytest.mark.parametrize("case", MERGE_CASES)
def test_every_policy_is_compatible_after_every_batch(
    engine: Engine, tmp_path: Path, case: MergeCase
) -> None:
    seed = 1 + MERGE_CASES.index(case)
    script = one_life_each(case, seed)
    folder = tmp_path / "copies"
    folder.mkdir()
    copies = engine.stream(f"{folder}/*.jsonl", name=f"c{seed}", copies=True, schema=SCHEMA)
    kind: Case = CASES[MERGE_CASES.index(case)]
    # All of them in one query of Spark, which reads the copies once.
    chosen = policies(case)
    merges = [copies.merge(case=kind, **each) for each in chosen]
    places = [tmp_path / f"log{number}" for number in range(len(merges))]
    run, *_ = engine.start_all(merges, places, checkpoint=tmp_path / "checkpoint")
    each = [Watched(place, case, is_default=not policy) for place, policy in zip(places, chosen)]
    waiting, dice = 0, Random(seed)
    for action in script.actions:
        name = action[1]
        file = folder / f"{name}.jsonl"
        if action[0] == "attach":
            for merge in each:
                merge.watch.attach(name)
            file.touch()
        elif action[0] == "detach":
            _look(run, each, script)
            for merge in each:
                merge.watch.detach(name)
            run.control.detach(f"c{seed}", copy=file.name)
        else:
            for merge in each:
                merge.watch.take(name, action[2])
            with file.open("a") as out:
                out.write(line(action[2]))
            waiting += 1
        if waiting > dice.randrange(2, 9):
            _look(run, each, script)
            waiting = 0
    _look(run, each, script)
    run.stop()
    assert {merge.log.stable for merge in each} == {FOREVER}


def _look(run: Run, merges: Sequence[Watched], script: MergeScript) -> None:
    run.drain()
    told = [(event.payload, event.start, event.new_end) for event in script.history]
    for merge in merges:
        for element in merge.log.news():
            merge.watch.emit(element)
        assert [str(each) for each in merge.watch.violations()] == [], merge.log.log.path
        assert unsettled(merge.watch, told) == [], merge.log.log.path


def rows(folder: Path, number: int, seed: int) -> None:
    """One more file of rows."""
    dice = Random(seed * 1000 + number)
    (folder / "rows").mkdir(exist_ok=True)
    begin = number * 10
    lines = [
        {"k": dice.randrange(3), "v": dice.randrange(9), "ts": begin + dice.randrange(12)}
        for _ in range(15)
    ]
    text = "".join(json.dumps(each) + "\n" for each in lines)
    hidden = folder / "rows" / f".{number}"
    hidden.write_text(text)
    hidden.replace(folder / "rows" / f"{number:03}.jsonl")


def right(folder: Path) -> LogicalStream:
    """What the query means."""
    Engine().sql(QUERY.format(folder=folder)).run_local(to=folder / "right.jsonl")
    return LogicalStream.of_batches(list(read_batches(folder / "right.jsonl")))


def copy_of(engine: Engine, folder: Path, name: str, text: str = QUERY) -> Run:
    """A copy of the query, that goes on where it was."""
    query: Stream = engine.sql(text.format(folder=folder))
    return query.canonical().start(to=folder / "copies" / name)


def test_a_copy_begins_where_another_is_and_takes_its_place(engine: Engine, tmp_path: Path) -> None:
    for number in range(6):
        rows(tmp_path, number, 1)
    first = copy_of(engine, tmp_path, "first")
    first.drain()
    merged = merge_logs(engine, tmp_path / "copies", tmp_path / "merged", case="r3")
    merged.drain()
    since = jumpstart(tmp_path / "copies" / "first", tmp_path / "copies" / "second")
    assert since == LogFolder(str(tmp_path / "copies" / "first")).stable()
    second = copy_of(engine, tmp_path, "second")
    for number in range(6, 9):
        rows(tmp_path, number, 1)
    second.drain()
    merged.drain()
    places = [tmp_path / "copies" / name for name in ("first", "second")]
    with pytest.raises(PlanError, match="'first' cannot take its own place"):
        cutover(tmp_path / "merged", places[0], places[0])
    reached = cutover(tmp_path / "merged", *places)
    # What has been detached does not take the place of the one that is left.
    with pytest.raises(PlanError, match="has detached 'first'") as raised:
        cutover(tmp_path / "merged", *reversed(places))
    assert raised.value.hint.endswith("rejoin copies --copy first")
    assert reached == LogFolder(str(tmp_path / "merged")).stable()
    first.stop()
    for number in range(9, 13):
        rows(tmp_path, number, 1)
    second.drain()
    merged.drain()
    second.stop()
    merged.stop()
    got = LogicalStream.of_batches(list(LogFolder(str(tmp_path / "merged")).read()))
    assert merged.stable == second.stable > reached
    assert got.difference(right(tmp_path), merged.stable) == ""
    (stage,) = merged.metrics()[-1]["stages"].values()
    statuses = [{c["name"]: c["status"] for c in each["copies"]} for each in stage["reports"]]
    assert statuses == [{"first": "left", "second": "joined"}] * 2


def test_a_copy_by_another_plan_begins_in_the_middle_in_the_same_engine(
    engine: Engine, tmp_path: Path
) -> None:
    for number in range(4):
        rows(tmp_path, number, 6)
    first = copy_of(engine, tmp_path, "first")
    first.drain()
    stream, query = QUERY.split(";")
    halves = (query.replace("GROUP BY", f"WHERE k {test} 1 GROUP BY") for test in ("=", "<>"))
    text = f"{stream};{' UNION ALL '.join(halves)}"
    better: Stream = engine.sql(text.format(folder=tmp_path))
    log = tmp_path / "copies" / "better"
    since = jumpstart(tmp_path / "copies" / "first", log, query=better)
    second = copy_of(engine, tmp_path, "better", text)
    # Whoever asks for the same answer reads that of the first one: the other lacks its beginning.
    assert [each.source.path for each in engine._host.runs.published()] == [str(first.log_folder)]
    for number in range(4, 7):
        rows(tmp_path, number, 6)
    first.drain()
    second.drain()
    assert first.stable == second.stable > since
    for run in (first, second):
        run.stop()
    # Neither reads the other.
    got, other = (
        LogicalStream.of_batches(list(LogFolder(str(tmp_path / "copies" / name)).read()))
        for name in ("first", "better")
    )
    meant = right(tmp_path)
    assert got.difference(meant, first.stable) == ""
    for instant in range(int(since), int(first.stable)):
        assert other.snapshot(Time(instant)) == meant.snapshot(Time(instant))


def test_a_copy_that_is_behind_skips_what_is_settled(engine: Engine, tmp_path: Path) -> None:
    for number in range(4):
        rows(tmp_path, number, 2)
    # Rows that are let through one by one can be left out one by one.
    stream, _ = QUERY.split(";")
    slow = copy_of(engine, tmp_path, "slow", f"{stream}; SELECT k, v FROM rows WHERE v > 3")
    slow.drain()
    told: dict[str, int] = {}
    reached = int(slow.stable) + 25
    tell(reached, str(tmp_path / "copies"), told)
    assert told == {"slow": reached}
    tell(reached, str(tmp_path / "copies"), told)
    # It counts from the batch on that follows the one in which it is heard.
    rows(tmp_path, 4, 2)
    slow.drain()
    for number in range(5, 9):
        rows(tmp_path, number, 2)
    slow.drain()
    commands = [each for batch in slow.metrics() for each in batch.get("control", ())]
    assert [(each["verb"], each["value"]) for each in commands] == [("feedback", reached)]
    before, after = _rows(tmp_path, range(5)), _rows(tmp_path, range(5, 9))
    skipped = sum(batch["sources"]["rows"].get("skipped", 0) for batch in slow.metrics())
    assert skipped == sum(row["ts"] + 1 < reached for row in after) > 0
    slow.stop()
    # What ends later is all there.
    got = LogicalStream.of_batches(list(LogFolder(str(tmp_path / "copies" / "slow")).read()))
    there = [row for row in before + after if row["v"] > 3 and row["ts"] >= reached]
    for time in {row["ts"] for row in there}:
        wanted = Counter((row["k"], row["v"]) for row in there if row["ts"] == time)
        assert got.snapshot(Time(time)) == wanted


def _rows(folder: Path, numbers: range) -> list[dict[str, int]]:
    files = [folder / "rows" / f"{number:03}.jsonl" for number in numbers]
    return [json.loads(each) for file in files for each in file.read_text().splitlines()]


def test_feedback_passes_aggregates_between_two_real_queries(
    engine: Engine, tmp_path: Path
) -> None:
    stream, query = QUERY.split(";")
    limited = f"{stream} WITH (max_files_per_batch = 1);{query}"
    for number in range(2):
        rows(tmp_path, number, 3)
    slow = copy_of(engine, tmp_path, "slow", limited)
    slow.drain()
    slow.stop()
    for number in range(2, 12):
        rows(tmp_path, number, 3)
    fast = copy_of(engine, tmp_path, "fast")
    fast.drain()
    merged = merge_logs(engine, tmp_path / "copies", tmp_path / "merged", detach_after=None)
    merged.drain()
    stable_point, since = settled_of(merged)
    assert stable_point == fast.stable > slow.stable
    assert since is not None
    assert slow.stable < since <= stable_point
    told: dict[str, int] = {}
    tell(stable_point, str(tmp_path / "copies"), told, since=since, control=merged.control)
    assert told == {"slow": stable_point}
    slow = copy_of(engine, tmp_path, "slow", limited)
    slow.drain()
    for number in range(12, 20):
        rows(tmp_path, number, 3)
    for run in (fast, slow, merged):
        run.drain()
    skipped = sum(batch["sources"]["rows"].get("skipped", 0) for batch in slow.metrics())
    # A window of 20 reaches back; the batch that brings the feedback is read as a whole.
    assert skipped > len(_rows(tmp_path, range(3, 12))) / 3
    fast.stop()
    for number in range(20, 24):
        rows(tmp_path, number, 3)
    slow.drain()
    merged.drain()
    for run in (slow, merged):
        run.stop()
    got = LogicalStream.of_batches(list(LogFolder(str(tmp_path / "merged")).read()))
    assert merged.stable == slow.stable > fast.stable
    assert got.difference(right(tmp_path), merged.stable) == ""
    (stage,) = merged.metrics()[-1]["stages"].values()
    diverged = {c["name"]: c["diverged"] for each in stage["reports"] for c in each["copies"]}
    assert diverged == {"fast": 0, "slow": 0}


def test_a_source_that_is_silent_does_not_make_the_merge_of_two_remember_for_ever(
    engine: Engine, tmp_path: Path
) -> None:
    def say(name: str, number: int) -> None:
        (tmp_path / name).mkdir(exist_ok=True)
        lines = [{"k": each, "n": number, "ts": number * 100 + each} for each in range(100)]
        text = "".join(json.dumps(each) + "\n" for each in lines)
        hidden = tmp_path / name / f".{number}"
        hidden.write_text(text)
        hidden.replace(tmp_path / name / f"{number:03}.jsonl")

    for name in ("first", "second"):
        engine.sql(
            f"CREATE STREAM {name} (k INT, n INT, ts INT) SOURCE '{tmp_path}/{name}/*.jsonl' "
            "ORDERED BY ts DELAY 10"
        )
        say(name, 0)
    merged = engine.sql("SELECT k, n FROM MERGE(first, second, case => 'r4', compare => 150)")
    run = merged.start(tmp_path / "merged")
    run.drain()
    for number in range(1, 12):
        say("first", number)
        run.drain()
    held = [sum(each["state_rows"] for each in batch["stages"].values()) for batch in run.metrics()]
    # Each event is a node and a payload; of those that are settled, each shard keeps 150.
    assert max(held) < 1.3 * max(held[:6]) < 1100
    # It comes back, with all that it has not said.
    for number in range(1, 12):
        say("second", number)
    run.drain()
    reports = next(
        each["reports"] for each in run.metrics()[-1]["stages"].values() if "reports" in each
    )
    second = [each for shard in reports for each in shard["copies"] if each["name"] == "second"]
    assert sum(each["diverged"] for each in second) == 0
    assert sum(each.get("uncompared", 0) for each in second) >= 500
    say("second", 12)
    run.drain()
    run.stop()
    got = LogicalStream.of_batches(list(LogFolder(str(tmp_path / "merged")).read()))
    assert run.stable > 1200
    for instant in range(int(run.stable)):
        assert got.snapshot(Time(instant)) == Counter([(instant % 100, instant // 100)])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, COUNT(*) AS n, MAX(v) AS most FROM rows WINDOW(RANGE 20 SLIDE 10) GROUP BY k",
        "SELECT k, SUM(v) AS total FROM rows WINDOW(PARTITION BY k ROWS 4) GROUP BY k",
    ],
    ids=["range", "rows"],
)
def test_feedback_purges_the_state_of_a_copy(engine: Engine, tmp_path: Path, query: str) -> None:
    for number in range(20):
        rows(tmp_path, number, 4)
    lines = [json.dumps(row) for row in _rows(tmp_path, range(20))]
    # No two rows at one instant, and a promise that is far behind.
    many = [{**json.loads(each), "ts": number} for number, each in enumerate(lines)]
    stream = "CREATE OR REPLACE STREAM rows (k INT, v INT, ts INT) SOURCE '{}' ORDERED BY ts {};"
    source = tmp_path / "single"
    source.mkdir()

    def write(name: str, part: list[dict[str, int]]) -> None:
        (source / f".{name}").write_text("".join(json.dumps(each) + "\n" for each in part))
        (source / f".{name}").replace(source / f"{name}.jsonl")

    def copy(text: str) -> Stream:
        written: Stream = engine.sql(text.format(f"{source}/*.jsonl", "DELAY 1000") + query)
        return written.canonical()

    def state_rows() -> int:
        told = CliRunner().invoke(app, ["state", str(tmp_path / "slow"), "--json"])
        assert told.exit_code == 0, told.output
        return sum(json.loads(each)["rows"] for each in told.output.splitlines())

    write("0", many[:250])
    run = copy(stream).start(to=tmp_path / "slow", share=False)
    run.drain()
    before = state_rows()
    so_far = LogicalStream.of_batches(list(LogFolder(str(tmp_path / "slow")).read()))
    since = min(start for _, start, end in so_far.events() if end >= 240)
    sent = CliRunner().invoke(
        app, ["control", str(tmp_path / "slow"), "feedback", "240", str(since)]
    )
    assert sent.exit_code == 0, sent.output
    write("1", many[250:270])
    run.drain()
    assert state_rows() < before / 3
    assert run.stable < 0
    write("2", many[270:])
    run.drain()
    run.stop()
    got = LogicalStream.of_batches(list(LogFolder(str(tmp_path / "slow")).read()))
    copy(stream).run_local(to=tmp_path / "whole.jsonl")
    whole = LogicalStream.of_batches(list(read_batches(tmp_path / "whole.jsonl")))
    for time in range(240, 330):
        assert got.snapshot(Time(time)) == whole.snapshot(Time(time)), time


def test_two_sources_are_merged_by_sql_and_by_python(engine: Engine, tmp_path: Path) -> None:
    """Copies of one feed, in different order, as MERGE and `ab.merge` see them."""
    dice = np.random.default_rng(5)
    rows = 120_000
    feed = pa.table(
        {
            "k": dice.integers(0, 500, rows).astype(np.int32),
            "v": np.arange(rows, dtype=np.int32),
            "ts": (np.arange(rows) // 20).astype(np.int32),
        }
    )
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        for part in range(6):
            piece = feed.slice(part * rows // 6, rows // 6)
            near = np.argsort(piece["ts"].to_numpy() + dice.integers(0, 9, len(piece)))
            pq.write_table(piece.take(near), tmp_path / name / f"{part}.parquet")
        engine.sql(
            f"CREATE STREAM {name} (k INT, v INT, ts INT) SOURCE '{tmp_path}/{name}/*.parquet' "
            "ORDERED BY ts DELAY 10 KEYED WITH (ends = TRUE, max_files_per_batch = 2)"
        )
    by_sql = engine.sql("SELECT k, v FROM MERGE(left, right)")
    left, right_ = (engine.sql(f"SELECT k, v FROM {name}") for name in ("left", "right"))
    by_python = ab.merge(left, right_)
    for query, name in ((by_sql, "sql"), (by_python, "python")):
        assert "Merge 2 copies by r3" in query.explain()
        run = query.start(to=tmp_path / name, available_now=True)
        run.await_end()
        log = LogFolder(str(tmp_path / name))
        assert log.stable() == FOREVER
        checked = CliRunner().invoke(app, ["check", str(tmp_path / name)])
        assert checked.exit_code == 0, checked.output
        batches = list(log.read())
        moves = pa.Table.from_batches([batch.payload for batch in batches]).append_column(
            "ts", pa.array(np.concatenate([batch.start for batch in batches]))
        )
        lasts = np.concatenate(
            [np.sign(b.new_end - b.start) - np.sign(b.end - b.start) for b in batches]
        )
        moves = moves.append_column("change", pa.array(lasts))
        # DuckDB adds up what was inserted and withdrawn.
        wrong = duckdb.execute(
            "SELECT * FROM (SELECT k, v, ts, SUM(change) AS n FROM moves GROUP BY ALL) AS got "
            "FULL JOIN feed USING (k, v, ts) WHERE n IS NULL OR n <> 1 OR feed.v IS NULL"
        ).fetchall()
        assert wrong == []
