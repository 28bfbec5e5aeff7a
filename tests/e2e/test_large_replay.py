"""A replay that is too large for the driver runs as a job of Spark beside the query."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.engine import Engine
from anabranch.model.files.stream_file import read_batches
from anabranch.model.logical import LogicalStream
from anabranch.runtime.thresholds import thresholds

pytestmark = pytest.mark.spark

OUTPUT = pa.schema([("n", pa.int64()), ("total", pa.int64())])


def put(folder: Path, name: str, times: np.ndarray) -> None:
    """A file of rows that appears whole."""
    rows = pa.table({"v": pa.array(times % 7), "t": pa.array(times)})
    pq.write_table(rows, folder / f".{name}", row_group_size=500)
    (folder / f".{name}").rename(folder / f"{name}.parquet")


def test_both_ways_to_replay_give_the_same(engine: Engine, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    put(rows, "0", np.arange(3_000))
    stream = engine.stream(rows, name="S", start="t", delay=10, late="revise")
    query = stream.window(20, slide=20).agg(n="COUNT(*)", total="SUM(v)")
    late = [np.array([55, 55, 600]), np.array([56, 1_300]), np.array([55, 2_000])]
    ran, found = [], []
    for way, least in (("driver", 1_000_000), ("spark", 1)):
        out = tmp_path / f"{way}.jsonl"
        for number, _ in enumerate(late, start=1):
            (rows / f"{number}.parquet").unlink(missing_ok=True)
        with thresholds(REPLAY_ON_SPARK_FROM_ROWS=least), query.start(out, share=False) as run:
            run.drain()
            for number, times in enumerate(late, start=1):
                put(rows, str(number), np.append(times, 3_000 + 40 * number))
                run.drain()
        records = sorted((tmp_path / f"{way}.jsonl.checkpoint" / "revisions").glob("[0-9].json"))
        texts = [record.read_text().splitlines()[0] for record in records]
        ran.append([json.loads(text)["emissions"][0].get("ran", "driver") for text in texts])
        found.append(LogicalStream.of_batches(read_batches(out, OUTPUT)))
    assert ran == [["driver"] * 3, ["spark"] * 3]
    assert found[0] == found[1]
    snapshot = found[1].snapshot(59)
    values = [*range(40, 60), 55, 55, 56, 55]
    assert snapshot == {(len(values), sum(value % 7 for value in values)): 1}
