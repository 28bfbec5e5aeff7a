"""A query with two stages over files, as a process that can be killed: `python it.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.engine import Engine, Stream

FILES = 26
ROWS = 40


def write_input(folder: Path) -> None:
    """Rows out of order, one file per batch; some come too late."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(7)
    for number in range(FILES):
        time = number * 10 + random.integers(-15, 10, ROWS)
        table = {"k": random.integers(0, 12, ROWS), "v": random.integers(0, 100, ROWS), "t": time}
        pq.write_table(pa.table(table), folder / f"{number:03}.parquet")


def query(engine: Engine, folder: Path) -> Stream:
    """How many keys have how many rows in the last 30 instants."""
    rows = engine.stream(folder, name="rows", start="t", delay=12, max_files_per_batch=1)
    counts = rows.window(30).group_by("k").agg(n="COUNT(*)", top="MAX(v)")
    return counts.group_by("n").agg(keys="COUNT(*)", best="MAX(top)")


def main(folder: Path) -> None:
    with Engine(shards=2) as engine:
        query(engine, folder / "in").start(
            folder / "log", checkpoint=folder / "checkpoint", available_now=True
        ).await_end()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
