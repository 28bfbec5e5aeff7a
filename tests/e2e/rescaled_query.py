"""A join and aggregates, as a process: `python it.py FOLDER SHARDS BATCHES`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.engine import Engine, Stream

BATCHES = 9
ROWS = 60


def write_input(folder: Path, batches: int) -> None:
    """A file of each source per batch; those that are there stay as they are."""
    for number in range(batches):
        for place, source in enumerate(("bids", "asks")):
            file = folder / source / f"{number:03}.parquet"
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                random = np.random.default_rng(2 * number + place)
                table = {
                    "k": random.integers(0, 12, ROWS),
                    "v": random.integers(0, 5, ROWS),
                    "t": number * 10 + random.integers(0, 10, ROWS),
                }
                pq.write_table(pa.table(table), file)


def query(engine: Engine, folder: Path) -> Stream:
    """How many pairs of each key and value are alive, and how many have how many."""

    def rows(name: str) -> Stream:
        found = engine.stream(folder / name, name=name, start="t", delay=15, max_files_per_batch=1)
        return found.window(20)

    asks = rows("asks").select(k2="k", v2="v")
    pairs = rows("bids").join(asks, on="k = k2")
    counts = pairs.group_by("k", "v").agg(n="COUNT(*)", high="MAX(v2)", d="COUNT(DISTINCT v2)")
    return counts.group_by("n").agg(keys="COUNT(*)", high="MAX(high)", d="SUM(d)")


def main(folder: Path, shards: int, batches: int) -> None:
    write_input(folder / "in", batches)
    with Engine(shards=shards) as engine:
        query(engine, folder / "in").start(
            folder / "log", checkpoint=folder / "checkpoint", available_now=True
        ).await_end()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
