"""Rows for benchmarks, as Parquet files: keys, values and times, a little out of order."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

JITTER: Final = 500_000
"""A row is at most so many microseconds early or late."""

ELEMENTS = pa.schema(
    [
        ("kind", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("new_end", pa.int64()),
        ("k", pa.int64()),
        ("v", pa.float64()),
    ]
)


def draw_rows(
    seed: int, first: int, count: int, keys: int, per_second: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys, values and times (microseconds) of rows number `first` and on."""
    random = np.random.default_rng([seed, first])
    times = (np.arange(first, first + count) * 1_000_000) // per_second
    times = np.maximum(times + random.integers(-JITTER, JITTER, count), 0)
    return random.integers(0, keys, count), random.random(count), times


def write_rows(
    folder: Path,
    *,
    files: int,
    rows_per_file: int,
    keys: int,
    per_second: int,
    seed: int = 7,
    each_once: bool = False,
) -> None:
    """Plain rows `k, v, ts`; with `each_once` row number i has key i."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        first = number * rows_per_file
        k, v, ts = draw_rows(seed, first, rows_per_file, keys, per_second)
        if each_once:
            k = np.arange(first, first + rows_per_file)
        table = pa.table({"k": k, "v": v, "ts": pa.array(ts, pa.timestamp("us"))})
        pq.write_table(table, folder / f"rows-{number:05}.parquet", compression="snappy")


def write_elements(
    folder: Path,
    *,
    files: int,
    rows_per_file: int,
    files_per_batch: int,
    keys: int,
    per_second: int,
    corrected: float,
    seed: int = 7,
) -> None:
    """The same rows as elements with explicit stable points, a share of them taken back.

    A file withdraws rows of the file that stands where it does in the batch before, so all that it
    corrects has been answered: with 4 files in a batch, file 6 withdraws rows of file 2. To keep
    the number of rows, a file has fewer inserts then; files of the first batch withdraw nothing.

    A stable point leaves room for such withdrawals, and does not depend on the share: after file 6
    it is before the first row of file 3, which file 7 corrects.
    """
    folder.mkdir(parents=True, exist_ok=True)
    back = round(rows_per_file * corrected / (1 + corrected))
    for number in range(files):
        before = number - files_per_batch
        random = np.random.default_rng([seed, number, 1])
        first = number * rows_per_file
        k, v, ts = draw_rows(seed, first, rows_per_file, keys, per_second)
        kept = _kept(seed, number, rows_per_file, back if before >= 0 else 0)
        parts = [_part("insert", ts[kept], ts[kept] + 1, None, k[kept], v[kept])]
        positions = np.arange(len(kept), dtype=np.float64)
        if before >= 0 and back:
            k, v, ts = draw_rows(seed, before * rows_per_file, rows_per_file, keys, per_second)
            there = _kept(seed, before, rows_per_file, back if before >= files_per_batch else 0)
            gone = np.sort(random.choice(there, back, replace=False))
            parts.append(_part("adjust", ts[gone], ts[gone] + 1, ts[gone], k[gone], v[gone]))
            # Corrections come between the inserts, not as a block.
            positions = np.append(positions, np.sort(random.random(back)) * len(kept))
        rows = pa.concat_tables(parts).take(np.argsort(positions, kind="stable"))
        earliest = (before + 1) * rows_per_file * 1_000_000 // per_second - JITTER
        promise = pa.table(
            {"kind": ["stable"], "start": [max(earliest, 0)]}, schema=pa.schema(list(ELEMENTS)[:2])
        )
        table = pa.concat_tables([rows, promise], promote_options="default")
        pq.write_table(table.select(ELEMENTS.names), folder / f"elements-{number:05}.parquet")


def _kept(seed: int, number: int, rows: int, left_out: int) -> np.ndarray:
    """Which rows of a file are inserted, in their order."""
    random = np.random.default_rng([seed, number, 2])
    return np.sort(random.choice(rows, rows - left_out, replace=False))


def _part(
    kind: str,
    start: np.ndarray,
    end: np.ndarray,
    new_end: np.ndarray | None,
    k: np.ndarray,
    v: np.ndarray,
) -> pa.Table:
    moved = pa.nulls(len(start), pa.int64()) if new_end is None else pa.array(new_end)
    kinds = pa.repeat(kind, len(start))
    return pa.table([kinds, start, end, moved, k, v], schema=ELEMENTS)
