"""Rows for benchmarks, as Parquet files: keys, values and times, a little out of order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

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
    times = np.maximum(times + random.integers(-500_000, 500_000, count), 0)
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
    keys: int,
    per_second: int,
    corrected: float,
    seed: int = 7,
) -> None:
    """The same rows as elements with explicit stable points, a share of them taken back.

    A correction withdraws a row of the same file and stands right after all its inserts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        inserts = round(rows_per_file / (1 + corrected))
        k, v, ts = draw_rows(seed, number * inserts, inserts, keys, per_second)
        back = np.random.default_rng([seed, number, 1]).choice(
            inserts, rows_per_file - inserts, replace=False
        )
        last = (number + 1) * inserts * 1_000_000 // per_second - 500_000
        insert = _part("insert", ts, ts + 1, None, k, v)
        withdraw = _part("adjust", ts[back], ts[back] + 1, ts[back], k[back], v[back])
        promise = pa.table(
            {"kind": ["stable"], "start": [last]}, schema=pa.schema(list(ELEMENTS)[:2])
        )
        table = pa.concat_tables([insert, withdraw, promise], promote_options="default")
        pq.write_table(table.select(ELEMENTS.names), folder / f"elements-{number:05}.parquet")


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
