"""Large streams from a seed, as files, and what they amount to in the end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

STEP = 10
"""Instants per file."""

DISORDER = 5
DELAY = STEP + DISORDER
HOT = 7
"""The key that most rows of some files have."""

PAYLOAD = pa.schema(
    [
        ("i", pa.int64()),
        ("k", pa.int64()),
        ("n", pa.int64()),
        ("v", pa.float64()),
        ("d", pa.decimal128(12, 2)),
        ("ts", pa.timestamp("us")),
    ]
)
ELEMENTS = pa.schema(
    [
        ("kind", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("new_end", pa.int64()),
        *PAYLOAD,
    ]
)
EXTREMES = (-(2**63), -(2**63) + 1, 2**63 - 1, 2**63 - 2, 0)


@final
@dataclass(frozen=True, slots=True)
class Shape:
    """A stream: so many rows in so many files.

    Attributes:
        rows: All rows, corrections not counted.
        files: A file has the rows of some instants.
        seed: Decides everything else.
        keys: How many keys the files have that are neither of one key nor of all different ones.
        elements: Elements with lifetimes, a fifth of which are corrected in the next file;
            otherwise plain rows with a time.
        hot: Some files have mostly one key.
    """

    rows: int
    files: int
    seed: int = 1
    keys: int = 1_000
    elements: bool = False
    hot: bool = True

    @property
    def span(self) -> int:
        """Nothing starts at this instant or later."""
        return self.files * STEP + DISORDER


def payload(shape: Shape, number: int, count: int, chance: np.random.Generator) -> pa.Table:
    """The payloads of a file: of equal keys, of different ones, of a hot one, of some."""
    first = number * count
    kind = number % 4
    k = chance.integers(0, shape.keys, count)
    if kind == 0 and shape.hot:
        k[:] = HOT
    elif kind == 1:
        k = 1_000_000 + np.arange(first, first + count)
    elif kind == 2 and shape.hot:
        k[chance.random(count) < 0.9] = HOT
    n = chance.integers(-1_000, 1_000, count)
    rare = chance.random(count) < 0.01
    n[rare] = chance.choice(np.array(EXTREMES), int(rare.sum()))
    v = chance.integers(-(10**6), 10**6, count) / 1024
    v[chance.random(count) < 0.001] = np.nan
    nulls = {name: chance.random(count) < 0.01 for name in ("k", "v", "n")}
    arrays = [
        pa.array(np.arange(first, first + count)),
        pa.array(k, mask=nulls["k"] if kind == 3 else None),
        pa.array(n, mask=nulls["n"]),
        pa.array(v, mask=nulls["v"]),
        decimals(chance.integers(-(10**9), 10**9, count)),
        pa.array(chance.integers(0, 2**50, count), pa.timestamp("us")),
    ]
    return pa.table(arrays, schema=PAYLOAD)


def decimals(hundredths: np.ndarray) -> pa.Array:
    """Whole hundredths as DECIMAL(12, 2), without a loop."""
    words = np.empty(2 * len(hundredths), np.int64)
    words[::2], words[1::2] = hundredths, hundredths >> 63
    buffers = [None, pa.py_buffer(words)]
    return pa.Array.from_buffers(pa.decimal128(12, 2), len(hundredths), buffers)


def write(folder: Path, shape: Shape, copy: int = 0) -> pa.Table:
    """Write the files of a stream; gives its events in the end, with `start` and `end`.

    Copies say the same in another order.
    """
    folder.mkdir(parents=True)
    return (_write_elements if shape.elements else _write_rows)(folder, shape, copy)


def _starts(number: int, count: int, chance: np.random.Generator) -> np.ndarray:
    return number * STEP + chance.integers(0, STEP + DISORDER, count)


def _write_rows(folder: Path, shape: Shape, copy: int) -> pa.Table:
    count, events = shape.rows // shape.files, []
    for number in range(shape.files):
        chance = np.random.default_rng([shape.seed, number])
        rows = payload(shape, number, count, chance)
        start = _starts(number, count, chance)
        order = np.random.default_rng([copy, number]).permutation(count)
        written = rows.append_column("t", pa.array(start)).take(pa.array(order))
        pq.write_table(written, folder / f"{number:05}.parquet")
        events.append(_events(rows, start, start + 1))
    return pa.concat_tables(events)


def _write_elements(folder: Path, shape: Shape, copy: int) -> pa.Table:
    """A file: its inserts, corrections of the file before, and a stable point.

    After file f nothing before f * STEP changes any more, where its own events start.
    """
    count, events = shape.rows // shape.files, []
    before: tuple[pa.Table, np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None = None
    for number in range(shape.files):
        chance = np.random.default_rng([shape.seed, number])
        rows = payload(shape, number, count, chance)
        start = _starts(number, count, chance)
        end = start + 1 + chance.integers(0, 2 * STEP, count)
        corrected = np.flatnonzero(chance.random(count) < 0.2)
        # Of those that are corrected a third are withdrawn.
        final = end.copy()
        final[corrected] = start[corrected] + 1 + chance.integers(0, 2 * STEP, len(corrected))
        final[corrected[::3]] = start[corrected[::3]]
        mixed = np.random.default_rng([copy, number])
        parts = [_elements("insert", rows, start, end, None, mixed.permutation(count))]
        if before is not None:
            parts.append(_elements("adjust", *before[:4], mixed.permutation(before[4])))
        parts.append(_stable(number * STEP))
        if number == shape.files - 1:
            parts.append(_elements("adjust", rows, start, end, final, mixed.permutation(corrected)))
        pq.write_table(pa.concat_tables(parts), folder / f"{number:05}.parquet")
        held = np.flatnonzero(final > start)
        events.append(_events(rows.take(pa.array(held)), start[held], final[held]))
        before = (rows, start, end, final, corrected)
    return pa.concat_tables(events)


def _elements(
    kind: str,
    rows: pa.Table,
    start: np.ndarray,
    end: np.ndarray,
    new_end: np.ndarray | None,
    chosen: np.ndarray,
) -> pa.Table:
    moved = pa.nulls(len(chosen), pa.int64()) if new_end is None else pa.array(new_end[chosen])
    times = [pa.repeat(kind, len(chosen)), start[chosen], end[chosen], moved]
    return pa.table([*times, *rows.take(pa.array(chosen)).columns], schema=ELEMENTS)


def _stable(time: int) -> pa.Table:
    return pa.Table.from_pylist([{"kind": "stable", "start": time}], schema=ELEMENTS)


def _events(rows: pa.Table, start: np.ndarray, end: np.ndarray) -> pa.Table:
    return rows.append_column("start", pa.array(start)).append_column("end", pa.array(end))
