"""Functions of users on Spark: they are sent to workers, and never asked of Spark itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.engine import Engine, Stream
from anabranch.errors import OperatorError

pytestmark = pytest.mark.spark

ROWS = {
    "k": [n % 3 for n in range(60)],
    "v": [None if n % 7 == 0 else float(n) for n in range(60)],
    "t": list(range(60)),
}


@ab.udf
def halved(v: float) -> float:
    if v == 1000.0:
        raise ValueError("too much")
    return v / 2


@ab.udf(frame="arrow", takes=[int], returns=int)
def next_key(k: pa.Array) -> pa.Array:
    return pc.add(k, 1)


def answer() -> Counter[tuple[Any, ...]]:
    """What the query gives at 59, for a window of 30, by hand."""
    found: dict[int, list[float]] = {}
    for k, v, t in zip(*ROWS.values()):
        if v is not None and t > 29 and v / 2 > 16 and v < 58:
            found.setdefault(k + 1, []).append(v / 2)
    return Counter((k, len(values), sum(values)) for k, values in found.items())


def source(engine: Engine, kind: str, folder: Path) -> Stream:
    table = pa.table(ROWS)
    if kind == "files":
        folder.mkdir()
        pq.write_table(table, folder / "rows.parquet")
        return engine.stream(folder, name=f"{kind}_rows", start="t", delay=0, ends=True)
    frame = engine.spark.createDataFrame(table)
    return engine.stream(frame, name=f"{kind}_rows", start="t", delay=0, ends=True)


@pytest.mark.parametrize("kind", ["files", "frame"])
def test_a_query_calls_functions_in_workers(engine: Engine, tmp_path: Path, kind: str) -> None:
    engine.register(halved)
    engine.register(next_key)
    source(engine, kind, tmp_path / "rows")
    query = engine.sql(
        f"""SELECT key, COUNT(*) AS n, SUM(halved(v)) AS total
        FROM (SELECT next_key(k) AS key, v, upper(string(k)) AS name FROM {kind}_rows
              WHERE halved(v) > 16 AND v < 58) WINDOW(RANGE 30)
        WHERE name < 'x' GROUP BY key"""
    )
    run = query.start(tmp_path / "log", available_now=True)
    assert run.await_end()
    rows = [tuple(row.values()) for row in run.snapshot(59).toPandas().to_dict("records")]
    assert Counter(rows) == answer()
    if kind == "frame":
        plan = query.explain()
        assert "HALVED(v) > 16" in plan


def test_the_row_that_a_function_fails_for_reaches_the_driver(
    engine: Engine, tmp_path: Path
) -> None:
    engine.register(halved)
    frame = engine.spark.createDataFrame(pa.table({"v": [1.0, 1000.0], "t": [1, 2]}))
    stream = engine.stream(frame, name="failing_rows", start="t", delay=0, ends=True)
    run = stream.select("halved(v) AS half").start(tmp_path / "log", available_now=True)
    with pytest.raises(OperatorError) as caught:
        run.await_end()
    said = str(caught.value).splitlines()
    assert said[0] == "the function 'halved' raised ValueError: too much"
    assert said[1] == "  halved(v => 1000.0)"
