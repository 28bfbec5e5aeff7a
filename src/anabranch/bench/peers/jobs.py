"""The three jobs: what they read, and the right answer by DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

WINDOW_MS: Final = 10_000
DELAY_MS: Final = 5_000
DISORDER_MS: Final = 500
PER_SECOND: Final = 20_000
"""Rows of a second, at the most; fewer where the rows would not last for four windows."""

BEST: Final = 3
CSV_PARTS: Final = 2
"""Every part has every so-many-th row, so that tasks which read them side by side keep in step."""

TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "tumbling": ("rows",),
    "join": ("left_rows", "right_rows"),
    "top": ("changes",),
}
"""The jobs, and what each reads."""

_ANSWERS: Final[Mapping[str, str]] = {
    "tumbling": "SELECT k, ts // {size} AS w, count(*) AS n FROM rows GROUP BY ALL",
    "join": "SELECT l.k, l.ts // {size} AS w, l.row AS l, r.row AS r FROM left_rows l "
    "JOIN right_rows r ON l.k = r.k AND l.ts // {size} = r.ts // {size}",
    "top": "SELECT k, w, v FROM (SELECT k, v, ts // {size} AS w FROM changes "
    "GROUP BY row, k, v, ts HAVING sum(op) > 0) "
    "QUALIFY row_number() OVER (PARTITION BY k, w ORDER BY v DESC) <= {best}",
}


@final
@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """An answer beside the right one: how many rows that has, and how many are wrong."""

    rows: int
    missing: int
    extra: int

    @property
    def is_right(self) -> bool:
        """Whether they are equal."""
        return not self.missing and not self.extra

    def __str__(self) -> str:
        if self.is_right:
            return "right"
        return f"{self.missing:,} of {self.rows:,} rows missing, {self.extra:,} that are wrong"


def write_inputs(folder: Path, rows: int, files: int) -> None:
    """All tables: `parquet/<table>` in files, `csv/<table>` in parts, `bare` without names.

    `elements` are `changes` as we read them.

    A row has a number, a key and a time in milliseconds, up to half a second out of order. A tenth
    of `changes` is taken back (`op` -1) at most two seconds after it came, before anybody who
    waits for five seconds has closed its window.
    """
    random = np.random.default_rng(7)
    rate = min(PER_SECOND, rows // 40)
    _write(folder, "rows", _rows(random, rows, keys=1_000, per_second=rate), files)
    for side in ("left_rows", "right_rows"):
        # A key has about one row of each side in a window.
        table = _rows(random, rows // 2, keys=rate * 5, per_second=rate // 2)
        _write(folder, side, table, files)
    changes = _changes(random, rows, rate)
    _write(folder, "changes", changes, files)
    _write_elements(folder / "parquet" / "elements", changes, files)


def _rows(random: np.random.Generator, rows: int, keys: int, per_second: int) -> pa.Table:
    ts = np.arange(rows) * 1_000 // per_second + random.integers(-DISORDER_MS, DISORDER_MS, rows)
    keyed = random.integers(0, keys, rows)
    return pa.table({"row": np.arange(rows), "k": keyed, "ts": np.maximum(ts, 0)})


def _changes(random: np.random.Generator, rows: int, per_second: int) -> pa.Table:
    inserts = rows * 10 // 11
    table = _rows(random, inserts, keys=1_000, per_second=per_second)
    table = table.append_column("v", pa.array(random.permutation(inserts)))
    table = table.append_column("op", pa.array(np.ones(inserts, np.int64)))
    back = np.sort(random.choice(inserts, rows - inserts, replace=False))
    again = table.take(pa.array(back)).set_column(4, "op", pa.array(-np.ones(len(back), np.int64)))
    # A correction comes after up to two seconds of further rows.
    later = back + random.integers(1, 2 * per_second, len(back))
    order = np.argsort(np.concatenate([np.arange(inserts), later + 0.5]), kind="stable")
    return pa.concat_tables([table, again]).take(pa.array(order))


def _write(folder: Path, name: str, table: pa.Table, files: int) -> None:
    as_csv, bare, as_parquet = (folder / form / name for form in ("csv", "bare", "parquet"))
    for each in (as_csv, bare, as_parquet):
        each.mkdir(parents=True)
    for part in range(CSV_PARTS):
        rows = table.take(pa.array(np.arange(part, table.num_rows, CSV_PARTS)))
        pcsv.write_csv(rows, as_csv / f"part-{part}.csv")
        nameless = pcsv.WriteOptions(include_header=False)
        pcsv.write_csv(rows, bare / f"part-{part}.csv", nameless)
    micros = np.asarray(table["ts"]) * 1_000
    at = table.append_column("at", pa.array(micros, pa.timestamp("us")))
    for number, rows in enumerate(_cut(at, files)):
        pq.write_table(rows, as_parquet / f"part-{number:05}.parquet")


def _write_elements(folder: Path, changes: pa.Table, files: int) -> None:
    folder.mkdir(parents=True)
    start = np.asarray(changes["ts"]) * 1_000
    back = np.asarray(changes["op"]) < 0
    elements = pa.table(
        {
            "kind": pa.array(np.where(back, "adjust", "insert")),
            "start": start,
            "end": start + 1,
            "new_end": pa.array(start, mask=~back),
            "k": changes["k"],
            "v": changes["v"],
        }
    )
    reached = 0
    for number, rows in enumerate(_cut(elements, files)):
        # What is taken back in the next file was inserted up to two seconds before it.
        reached = max(reached, int(np.asarray(rows["start"]).max()))
        stable = pa.table({"kind": ["stable"], "start": [reached - DELAY_MS * 1_000]})
        whole = pa.concat_tables([rows, stable], promote_options="default")
        pq.write_table(whole, folder / f"part-{number:05}.parquet")


def _cut(table: pa.Table, files: int) -> list[pa.Table]:
    size = -(-table.num_rows // files)
    return [table.slice(first, size) for first in range(0, table.num_rows, size)]


def verdict(job: str, folder: Path, answer: str) -> AnswerCheck:
    """Compare an answer with the right one, in all windows that everybody has closed.

    `answer` is a query of DuckDB over the files of the answer; its columns are those of the job.
    A column `diff` says how often a row comes or goes.
    """
    with duckdb.connect() as base:
        latest = []
        for name in TABLES[job]:
            path = folder / "parquet" / name / "*.parquet"
            base.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}')")
            latest.append(_number(base, f"SELECT max(ts) FROM {name}"))
        closed = (min(latest) - DELAY_MS) // WINDOW_MS
        wanted = _ANSWERS[job].format(size=WINDOW_MS, best=BEST)
        base.execute(f"CREATE TABLE wanted AS SELECT * FROM ({wanted}) WHERE w < {closed}")
        names = [row[0] for row in base.execute("DESCRIBE wanted").fetchall()]
        columns = ", ".join(f"CAST({name} AS BIGINT) AS {name}" for name in names)
        base.execute(f"CREATE TABLE given AS SELECT * FROM ({answer})")
        given = {row[0] for row in base.execute("DESCRIBE given").fetchall()}
        source = "given"
        if "diff" in given:
            listed = ", ".join(names)
            source = f"(SELECT {listed} FROM given GROUP BY ALL HAVING sum(diff) > 0)"
        found = f"SELECT * FROM (SELECT {columns} FROM {source}) WHERE w < {closed}"
        base.execute(f"CREATE TABLE found AS {found}")
        differ = "SELECT count(*) FROM (FROM {} EXCEPT ALL FROM {})"
        return AnswerCheck(
            _number(base, "SELECT count(*) FROM wanted"),
            _number(base, differ.format("wanted", "found")),
            _number(base, differ.format("found", "wanted")),
        )


def _number(base: Any, query: str) -> int:
    return int(base.execute(query).fetchone()[0])
