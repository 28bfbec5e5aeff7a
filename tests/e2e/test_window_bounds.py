"""Windows that are columns, and sessions: on Spark, against Spark's own."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from anabranch.engine import Engine, Stream
from anabranch.model.logical import LogicalStream
from anabranch.runtime.query.run import Run
from anabranch.runtime.sources.files.log_folder import LogFolder

pytestmark = pytest.mark.spark

BOUNDS = ("window_start", "window_end")
SECOND = 1_000_000


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Rows at whole seconds, out of order by up to 20 of them."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for number in range(4):
        random = np.random.default_rng(number)
        seconds = number * 40 + random.integers(-10, 40, 60)
        table = pa.table(
            {
                "k": pa.array(random.integers(0, 8, 60), mask=random.random(60) < 0.1),
                "ts": pa.array(seconds * SECOND, pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(table, folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (1_700_000_000 + number,) * 2)
    return folder


def stream(engine: Engine, rows: Path) -> Stream:
    return engine.stream(rows, name="rows", start="ts", delay="60 seconds", max_files_per_batch=1)


def finish(run: Run) -> Run:
    assert run.await_end()
    assert run.status == "ended"
    return run


def counts_of(found: LogicalStream) -> Counter[tuple[object, ...]]:
    """Every group and window with its count; each has one in the end."""
    return Counter((*row[:3], row[3]) for row in found.steps)


def counts_by(frame: DataFrame) -> Counter[tuple[object, ...]]:
    """The same out of a DataFrame with a column `w`, times with their zone."""
    chosen = frame.select(
        "k", *(sf.unix_micros(sf.col(f"w.{bound}")) for bound in ("start", "end")), "count"
    )
    return Counter(tuple(row) for row in chosen.collect())


def micros(found: Counter[tuple[object, ...]]) -> Counter[tuple[object, ...]]:
    return Counter(
        {
            (k, *(round(bound.timestamp() * SECOND) for bound in bounds), n): count  # type: ignore[attr-defined]
            for (k, *bounds, n), count in found.items()
        }
    )


def test_windows_are_those_of_spark(engine: Engine, rows: Path, tmp_path: Path) -> None:
    held = stream(engine, rows).window("30 seconds", slide="10 seconds", columns=BOUNDS)
    query = held.group_by("k", *BOUNDS).agg(n="COUNT(*)")
    finish(query.start(tmp_path / "log", available_now=True))
    log = LogFolder(str(tmp_path / "log"))
    found = LogicalStream.of_batches(log.read())
    assert found == LogicalStream.of_batches(query.run_local()._sink.batches())
    table = engine.spark.read.parquet(str(rows))
    window = sf.window("ts", "30 seconds", "10 seconds").alias("w")
    assert micros(counts_of(found)) == counts_by(table.groupBy("k", window).count())


def test_sessions_are_those_of_spark(engine: Engine, rows: Path, tmp_path: Path) -> None:
    """Rows are at whole seconds, so that none is exactly a gap apart."""
    query = (
        stream(engine, rows)
        .session_window("7.5 seconds", by="k", columns=BOUNDS)
        .group_by("k", *BOUNDS)
        .agg(n="COUNT(*)")
    )
    run = finish(query.start(tmp_path / "log", available_now=True))
    log = LogFolder(str(tmp_path / "log"))
    expected = query.run_local()
    found = LogicalStream.of_batches(log.read())
    assert found == LogicalStream.of_batches(expected._sink.batches())
    assert log.stable() == run.stable == expected.stable
    table = engine.spark.read.parquet(str(rows))
    window = sf.session_window("ts", "7500 milliseconds").alias("w")
    assert micros(counts_of(found)) == counts_by(table.groupBy("k", window).count())
    # What leaves under final emission is a part of that.
    final = finish(query.start(emit="final", available_now=True))
    assert final.stable == run.stable
    # A shard may be further than the others, so it is compared up to where all are.
    settled = LogicalStream.of_batches(final._sink.batches()).before(final.stable)
    assert settled.difference(found.before(final.stable)) == ""
