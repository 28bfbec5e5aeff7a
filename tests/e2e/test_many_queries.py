"""Five hundred queries in one group: one query of Spark, whose parts run once."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.engine import Engine
from anabranch.model.logical import LogicalStream

pytestmark = pytest.mark.spark

QUERIES = 500
WINDOWS = 25
MEGABYTE = 1024


def texts() -> list[str]:
    """A count per window in two spellings, under twenty conditions each."""
    found = []
    for number in range(QUERIES):
        size, condition = 10 + number % WINDOWS, number // WINDOWS
        where = "v > 3 AND x < 0.5" if number % 2 else "0.5 > x AND 3 < v"
        found.append(
            f"SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE {size}) WHERE {where} "
            f"GROUP BY k) AS counted WHERE n > {condition}"
        )
    return found


def test_hundreds_of_queries_are_one_group(engine: Engine, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    rows = 20_000
    table = pa.table(
        {
            "k": pa.array(random.integers(0, 50, rows), pa.int32()),
            "v": pa.array(random.integers(0, 9, rows), pa.int32()),
            "x": pa.array(random.random(rows)),
            "at": pa.array(np.arange(rows) // 20, pa.int64()),
        }
    )
    (tmp_path / "rows").mkdir()
    pq.write_table(table, tmp_path / "rows" / "all.parquet")
    engine.sql(
        "CREATE OR REPLACE STREAM S (k INT, v INT, x DOUBLE, at BIGINT) "
        f"SOURCE '{tmp_path}/rows' ORDERED BY at WITH (ends = TRUE)"
    )
    queries = [engine.sql(text) for text in texts()]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    runs = engine.start_all(queries, ["memory"] * QUERIES, available_now=True)
    planned = time.process_time() - began
    runs[0].await_end()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    (batch,) = [each for each in runs[0].metrics() if each["rows_in"]]
    counted = [name for name in batch["stages"] if "aggregate" in name]
    assert len(counted) == WINDOWS, "queries that mean the same share their counts"
    # Planning is a second of a core, with the start of Spark's query; the rest is for the sinks.
    assert planned < 10
    assert grown < 1_000 * MEGABYTE
    for number in (0, 1, 77, 260, 499):
        found = LogicalStream.of_batches(runs[number]._sink.batches())
        assert found == LogicalStream.of_batches(queries[number].run_local()._sink.batches())
    assert LogicalStream.of_batches(runs[1]._sink.batches()).steps
