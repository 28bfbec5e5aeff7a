"""Everyday operators at size on Spark, against DuckDB; the dashboard of the cookbook."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runtime.postgres import postgres_server
from tests.test_docs import blocks_of

from anabranch import Engine

pytestmark = pytest.mark.spark

ROWS = 120_000
KEYS = 20_000
LAST = ROWS + 1
ROOT = Path(__file__).parents[2]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Rows in four files, shuffled: values with ties, arrays with up to three items or NULL."""
    random = np.random.default_rng(5)
    folder = tmp_path / "rows"
    folder.mkdir()
    order = random.permutation(ROWS)
    sizes = random.integers(0, 4, ROWS)
    items = [None if size == 3 else [f"t{n}" for n in range(size)] for size in sizes]
    table = pa.table(
        {
            "k": random.integers(0, KEYS, ROWS),
            "v": random.integers(0, 50, ROWS),
            "id": np.arange(ROWS),
            "items": items,
            "at": np.arange(ROWS),
        }
    ).take(order)
    for part in range(4):
        pq.write_table(table.slice(part * ROWS // 4, ROWS // 4), folder / f"{part}.parquet")
    return folder


def test_ranks_and_explode_at_size_are_those_of_duckdb(
    engine: Engine, rows: Path, tmp_path: Path
) -> None:
    held = engine.stream(rows, start="at", name="R", delay=ROWS, max_files_per_batch=2)
    held = held.window(ROWS * 10)
    ranks = held.select("k", "v", "id").rank(
        ["v", "id"],
        by="k",
        n="ROW_NUMBER()",
        before="LAG(v)",
        after="LEAD(v, 1, -1)",
    )
    tied = held.select("k", "v").rank("v", by="k", r="RANK()", d="DENSE_RANK()")
    exploded = held.explode("items AS item").group_by("item").agg(n="COUNT(*)", s="SUM(v)")
    runs = engine.start_all([ranks, tied, exploded], tmp_path / "out", available_now=True)
    runs[0].await_end()
    source = f"'{rows}/*.parquet'"
    wanted = (
        f"""SELECT k, v, id, row_number() OVER o, lag(v) OVER o, lead(v, 1, -1) OVER o
            FROM {source} WINDOW o AS (PARTITION BY k ORDER BY v, id)""",
        f"""SELECT k, v, rank() OVER o, dense_rank() OVER o
            FROM {source} WINDOW o AS (PARTITION BY k ORDER BY v)""",
        f"SELECT item, count(*), sum(v) FROM (SELECT v, unnest(items) AS item FROM {source}) "
        "GROUP BY item",
    )
    for run, query in zip(runs, wanted, strict=True):
        found = run.snapshots([LAST]).to_arrow().drop_columns(["at"])
        relation = duckdb.sql(query)
        assert relation is not None
        expected = relation.to_arrow_table()
        assert found.num_rows == expected.num_rows
        assert _sorted(found) == _sorted(expected)
    logs = sorted(path.name for path in (tmp_path / "out").iterdir() if path.name[0] != "_")
    for name in logs:
        words = [sys.executable, "-m", "anabranch", "check", str(tmp_path / "out" / name)]
        assert subprocess.run(words, check=False, capture_output=True).returncode == 0, name


def _sorted(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns)), key=repr)


def test_the_dashboard_of_the_cookbook_is_kept_in_postgresql(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of((ROOT / "docs/cookbook/dashboard.md").read_text(encoding="utf-8"))
    names: dict[str, Any] = {"engine_of_this_test": engine}
    code = [block.text for block in blocks if block.language == "python"][:2]
    for text in code:
        exec(text.replace("ab.Engine()", "engine_of_this_test"), names)
    (start,) = [block.text for block in blocks if block.text.startswith("query.start(")]
    with postgres_server() as address:
        written = start.replace("postgresql://ann@db/shop?", f"{address}&")
        assert written != start
        run = eval(written, names)
        for _ in range(1000):
            if run.metrics():
                break
            run.await_end(0.1)
        run.stop()
        with psycopg.connect(address) as connection:
            found = connection.execute("SELECT product, total, sales FROM dashboard").fetchall()
    # The stable point is 11:30, an hour behind the last sale: what ended before is over.
    assert found == [("cup", 15.0, 1)]
