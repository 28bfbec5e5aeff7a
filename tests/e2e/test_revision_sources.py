"""Revisions of queries over DataFrames, and of queries over the logs of other queries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.engine import Engine
from anabranch.model.files.stream_file import read_batches
from anabranch.model.logical import LogicalStream
from anabranch.stream import Stream

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


def meaning(engine: Engine, path: Path, ask: Callable[[Stream], Stream]) -> LogicalStream:
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
    assert not found.difference(meaning(engine, tmp_path / "all", summed))


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
    wanted = meaning(engine, tmp_path / "all", lambda stream: spread(summed(stream)))
    assert not found.difference(wanted)
