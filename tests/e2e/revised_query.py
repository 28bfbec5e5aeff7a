"""A query whose answers are revised, as a process that can be killed: `python it.py FOLDER WAY`.

Corrections enter the query (`direct`), or change its state while input waits (`swap`, with two
sources `pair`) or runs on (`running`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.engine import Engine, Stream

FILES: Final = 8
ROWS: Final = 40
CORRECTIONS: Final = [
    {"insert": {"k": 7, "v": 70}, "start": 25},
    {"insert": {"k": 7, "v": 71}, "start": 55},
]
"""To be handed in; nothing before 100 is open at the end."""


def inputs(way: str) -> list[str]:
    """The sources of a query."""
    return ["rows", "others"] if way == "pair" else ["rows"]


def write_input(folder: Path, way: str) -> None:
    """One file per batch and source; from the third one on some rows come far too late."""
    for seed, name in enumerate(inputs(way)):
        (folder / name).mkdir(parents=True)
        for number in range(FILES):
            random = np.random.default_rng(100 * seed + number)
            time = number * 20 + random.integers(0, 20, ROWS)
            if number >= 2:
                time[:3] = random.integers(0, number * 20 - 20, 3)
            table = {
                "k": random.integers(0, 5, ROWS),
                "v": random.integers(0, 100, ROWS),
                "t": time,
            }
            pq.write_table(pa.table(table), folder / name / f"{number:03}.parquet")


def query(engine: Engine, folder: Path, way: str) -> Stream:
    """Corrections enter a query over windows of time; those of rows change its state."""
    first, *others = [
        engine.stream(
            folder / name, name=name, start="t", delay=5, late="revise", max_files_per_batch=1
        )
        for name in inputs(way)
    ]
    if way == "direct":
        return first.window(20, slide=10).group_by("k").agg(n="COUNT(*)", s="SUM(v)")
    for each in others:
        first = first.union(each)
    return first.rows_window(3, by="k", order_by="v").group_by("k").agg(s="SUM(v)")


def main(folder: Path, way: str) -> None:
    # Else it depends on how fast a replay is which corrections are exchanged together.
    settings = {} if way == "running" else {"spark.anabranch.catchUpRounds": "0"}
    with Engine(shards=2, settings=settings) as engine:
        query(engine, folder, way).start(
            folder / "log",
            checkpoint=folder / "checkpoint",
            available_now=True,
            allow_unbounded=True,
        ).await_end()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
