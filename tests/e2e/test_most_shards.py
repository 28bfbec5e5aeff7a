"""On Spark: a query with as many shards as there may be, whose batches have few rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.e2e.placement import share

from anabranch.engine import Engine
from anabranch.runtime.option import MOST_SHARDS
from anabranch.runtime.query.state_view import view_state

pytestmark = pytest.mark.spark

FILES, ROWS, KEYS = 4, 50, 60


def write_rows(folder: Path) -> Path:
    """Rows in order, of keys of which few are in a file."""
    folder.mkdir()
    chance = np.random.default_rng(3)
    for number in range(FILES):
        at = np.sort(chance.integers(number * 100, (number + 1) * 100, ROWS))
        table = {"k": chance.integers(0, KEYS, ROWS), "v": chance.integers(0, 99, ROWS), "at": at}
        pq.write_table(pa.table(table), folder / f"{number}.parquet")
    return folder


@pytest.mark.parametrize("way", ["plain jobs", "DataFrame"])
def test_a_query_with_the_most_shards_means_what_duckdb_says(
    engine: Engine, tmp_path: Path, way: str
) -> None:
    rows, log = write_rows(tmp_path / "in"), tmp_path / "log"
    many = Engine(engine.spark, shards=MOST_SHARDS)
    many.stream(rows, name="S", start="at", max_files_per_batch=1, ends=True)
    query = many.sql(
        "SELECT k, window_start, COUNT(*) AS n, MAX(v) AS top FROM S GROUP BY k, TUMBLING(50)"
    )
    with share(engine.spark, 0, plain=way != "DataFrame"):
        run = query.start(log, available_now=True, emit="watermark")
        run.await_end()
    results = run.table(raw=True).to_pylist()
    found = [
        (r["k"], r["window_start"], r["n"], r["top"]) for r in results if r["kind"] == "insert"
    ]
    files = f"{rows}/*.parquet"
    expected = duckdb.execute(
        'SELECT k, "at" // 50 * 50, count(*), max(v) FROM read_parquet(?) GROUP BY ALL', [files]
    ).fetchall()
    assert Counter(found) == Counter(expected)
    facts, shards = view_state(str(log), check=True)
    assert facts.shards == MOST_SHARDS
    assert [each.shard for each in shards if each.stage == shards[0].stage] == [*range(MOST_SHARDS)]
    # Keys went to their shards, and no others have ever written anything.
    written = [path.name for path in (log / "_checkpoint" / "state").glob("*/*") if path.is_dir()]
    assert KEYS // 2 <= len(written) <= 2 * KEYS
