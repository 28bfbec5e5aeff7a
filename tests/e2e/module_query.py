"""A query with a module of its own, as a process that can be killed: `python it.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import anabranch as ab

ROWS = 30


@ab.uda(name="counted")
class Counted:
    """How many rows a window has, and what they add up to."""

    def initial(self) -> list[int]:
        return [0, 0]

    def add(self, state: list[int], v: int) -> list[int]:
        return [state[0] + 1, state[1] + v]

    def remove(self, state: list[int], v: int) -> list[int]:
        return [state[0] - 1, state[1] - v]

    def compute(self, state: list[int]) -> str:
        return f"{state[0]} rows, {state[1]}"


def write_input(folder: Path, files: int) -> None:
    """Rows out of order, one file per batch; those that are there stay as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        file = folder / f"{number:03}.parquet"
        if not file.exists():
            chance = np.random.default_rng(number)
            table = {
                "k": chance.integers(0, 5, ROWS),
                "v": chance.integers(0, 100, ROWS),
                "t": number * 10 + chance.integers(-8, 10, ROWS),
            }
            # A query that is running finds whole files only.
            pq.write_table(pa.table(table), folder / f".{file.name}")
            (folder / f".{file.name}").rename(file)


def query(engine: ab.Engine, folder: Path, module: Any = Counted) -> ab.Stream:
    """Windows that are much longer than a batch."""
    rows = engine.stream(folder, name="rows", start="t", delay=18, max_files_per_batch=1)
    assert isinstance(rows, ab.Stream)
    windows = rows.hopping(40, 20, by="k", columns=("since", "until"), open_windows=True)
    return windows.apply(module, "v", name="said")


def main(folder: Path) -> None:
    with ab.Engine(shards=2) as engine:
        query(engine, folder / "in").start(
            folder / "log", checkpoint=folder / "checkpoint", available_now=True
        ).await_end()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
