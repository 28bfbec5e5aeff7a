"""Revisions of queries over DataFrames, and of queries over the logs of other queries."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.e2e.revised_queries import assert_legal
from tests.e2e.waiting import PATIENCE, until

from anabranch.engine import Engine
from anabranch.model.elements import Adjust, Element, Insert, Stable, batch_of, element_json
from anabranch.model.files.stream_file import read_batches
from anabranch.model.logical import LogicalStream
from anabranch.model.time import Time
from anabranch.runtime.query.run import Run
from anabranch.runtime.revisions.exchanging import PendingExchange, StateExchanger
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.stream import Stream
from anabranch.testing import meaning
from anabranch.testing.oracle import history_of

pytestmark = pytest.mark.spark

# Rows (key, value, time) in the order of their files; from the second file on some come too late.
FILES = (
    [(k, t, t) for t in range(0, 200, 5) for k in (1, 2)],
    [(1, 7, 33), (2, 9, 34), (1, 1, 210)],
    [(1, 3, 34), (2, 2, 151), (2, 5, 230)],
    [(2, 8, 34), (1, 4, 260)],
)


def put(folder: Path, number: int, rows: list[tuple[int, int, int]]) -> None:
    """A file of rows that appears whole."""
    k, v, t = zip(*rows)
    pq.write_table(pa.table({"k": k, "v": v, "t": t}), folder / f".{number}")
    (folder / f".{number}").rename(folder / f"{number}.parquet")


def summed(stream: Stream) -> Stream:
    return stream.window(20, slide=10).group_by("k").agg(total="SUM(v)", n="COUNT(*)")


def spread(stream: Stream) -> Stream:
    return stream.agg(groups="COUNT(*)", most="MAX(total)")


def answer_in_time(engine: Engine, path: Path, ask: Callable[[Stream], Stream]) -> LogicalStream:
    """The answer over all rows, none of which is late."""
    rows = sorted((row for file in FILES for row in file), key=lambda row: row[2])
    path.mkdir()
    put(path, 0, rows)
    stream = engine.stream(path, name=path.name, start="t", delay=10)
    run = ask(stream).run_local(path.with_suffix(".jsonl"))
    schema = ask(stream).node.schema
    assert run.status == "ended"
    return LogicalStream.of_batches(read_batches(path.with_suffix(".jsonl"), schema))


def test_late_rows_of_a_dataframe_are_replayed_from_copies(engine: Engine, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    put(rows, 0, FILES[0])
    frame: Any = engine.spark.readStream.schema("k long, v long, t long").parquet(str(rows))
    stream = engine.stream(frame, name="S", start="t", delay=10, late="revise")
    with summed(stream).start(tmp_path / "out.jsonl", share=False) as run:
        run.drain()
        for number, late in enumerate(FILES[1:], start=1):
            put(rows, number, late)
            run.drain()
        found = LogicalStream.of_batches(read_batches(tmp_path / "out.jsonl", run.schema))
        assert sum(batch.get("revised", 0) for batch in run.metrics()) >= 3
    assert not found.difference(answer_in_time(engine, tmp_path / "all", summed))


def test_revisions_go_on_into_a_query_that_reads_the_log(engine: Engine, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    put(rows, 0, FILES[0])
    first = summed(engine.stream(rows, name="S", start="t", delay=10, late="revise"))
    with first.start(tmp_path / "log", share=False) as run:
        run.drain()
        log = engine.stream(tmp_path / "log", name="Sums", late="revise")
        dropped = engine.stream(tmp_path / "log", name="Dropped", late="drop")
        with (
            spread(log).start(tmp_path / "second.jsonl", share=False) as second,
            spread(dropped).start(tmp_path / "third.jsonl", share=False) as third,
        ):
            second.drain()
            third.drain()
            for number, late in enumerate(FILES[1:], start=1):
                put(rows, number, late)
                for each in (run, second, third):
                    each.drain()
            found = LogicalStream.of_batches(read_batches(tmp_path / "second.jsonl", second.schema))
            assert third.totals["sources"]["Dropped"]["late"] > 0
    wanted = answer_in_time(engine, tmp_path / "all", lambda stream: spread(summed(stream)))
    assert not found.difference(wanted)


SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
EVENTS: Sequence[Sequence[Sequence[Element]]] = (
    [[Insert({"k": 1, "v": 1}, 0, 40), Insert({"k": 2, "v": 1}, 10, 30), Stable(20)]],
    # One task reads late inserts, another one their adjusts, which are in time.
    [
        [
            Insert({"k": 1, "v": 5}, 5, 50),
            Insert({"k": 2, "v": 5}, 12, 60),
            Insert({"k": 1, "v": 6}, 30, 50),
        ],
        [
            Adjust({"k": 1, "v": 5}, 5, 50, 25),
            Adjust({"k": 2, "v": 5}, 12, 60, 45),
            Adjust({"k": 2, "v": 1}, 10, 30, 26),
        ],
    ],
    [[Adjust({"k": 2, "v": 5}, 12, 45, 33), Insert({"k": 1, "v": 9}, 70, 80), Stable(100)]],
)
"""By batch and file."""


def test_an_adjust_in_time_waits_for_the_event_that_another_task_read_late(
    engine: Engine, tmp_path: Path
) -> None:
    """Windows keep events, and would not know what is adjusted; their state is exchanged."""
    files = tmp_path / "events"
    files.mkdir()
    for batch, parts in enumerate(EVENTS):
        for number, elements in enumerate(parts):
            lines = "".join(json.dumps(element_json(each)) + "\n" for each in elements)
            (files / f"{batch}-{number}.jsonl").write_text(lines)
        stream = engine.stream(files, name="S", schema=SCHEMA, late="revise", replace=True)
        query = stream.snapshot_windows(by="k").agg(n="COUNT(*)", s="SUM(v)")
        query.start(tmp_path / "log", available_now=True, share=False).await_end()
    assert list(tmp_path.rglob("held/S/*")), "no batch was repeated"
    elements = [each for parts in EVENTS for own in parts for each in own]
    came = [batch_of(elements, SCHEMA)]
    wanted = meaning(
        query.node, {"S": LogicalStream.of_batches(came)}, {"S": history_of(came)}, 100
    )
    found = LogicalStream.of_batches(LogFolder(str(tmp_path / "log")).read())
    assert not found.difference(wanted, Time(100))
    assert_legal(tmp_path / "log")


def test_a_query_runs_on_while_its_past_is_replayed(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came meanwhile, late rows among it, is in the state that it goes on with."""
    has_begun, may_end = threading.Event(), threading.Event()
    begin = StateExchanger.begin

    def begin_slowly(self: StateExchanger, *given: Any) -> PendingExchange | None:
        found = begin(self, *given)
        has_begun.set()
        assert may_end.wait(PATIENCE)
        return found

    monkeypatch.setattr(StateExchanger, "begin", begin_slowly)
    rows = tmp_path / "rows"
    rows.mkdir()
    put(rows, 0, FILES[0])
    stream = engine.stream(rows, name="S", start="t", delay=10, late="revise")
    query = stream.rows_window(3, by="k", order_by="v").group_by("k").agg(s="SUM(v)")
    with query.start(tmp_path / "log", share=False, allow_unbounded=True) as run:
        run.drain()
        put(rows, 1, FILES[1])
        assert has_begun.wait(PATIENCE)
        for number, late in enumerate(FILES[2:], start=2):
            put(rows, number, late)
            # The batch is committed, though the replay has not ended.
            until(partial(has_read, run, sum(map(len, FILES[: number + 1]))))
        assert not LogFolder(str(tmp_path / "log")).revisions()
        may_end.set()
        run.drain()
    points = [(row, row[2], row[2] + 1) for file in FILES for row in file]
    wanted = meaning(query.node, {"S": LogicalStream.of(points)})
    log = LogFolder(str(tmp_path / "log"))
    found = LogicalStream.of_batches(log.read())
    assert not found.difference(wanted, log.stable())
    assert log.revisions()
    assert_legal(tmp_path / "log")


def has_read(run: Run, rows: int) -> bool:
    read: int = sum(each["rows_in"] for each in run.metrics())
    return read >= rows
