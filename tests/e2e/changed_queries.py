"""Queries that change while they run, and what their output must be: by DuckDB."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.engine import Engine, Stream
from anabranch.runtime.query.run import Run

ROWS_IN_FILE = 12_000
SPAN_OF_FILE = 600
DECLARED = (
    "CREATE STREAM Bid (item INT, price INT, t BIGINT) SOURCE '{folder}/in/*.parquet' "
    "ORDERED BY t DELAY 40"
)


def declare(engine: Engine, folder: Path) -> None:
    (folder / "in").mkdir(parents=True, exist_ok=True)
    engine.sql(DECLARED.format(folder=folder))


def write_file(folder: Path, number: int, rows: int = ROWS_IN_FILE) -> None:
    """One file with rows of its own stretch of time, out of order by less than the delay."""
    chance = random.Random(number)
    first = number * SPAN_OF_FILE
    starts = sorted(
        (first + n * SPAN_OF_FILE // rows + chance.randrange(-20, 20) for n in range(rows)),
        key=lambda at: at + chance.randrange(0, 39),
    )
    table = pa.table(
        {
            "item": pa.array([chance.randrange(20) for _ in starts], pa.int32()),
            "price": pa.array([chance.randrange(1000) for _ in starts], pa.int32()),
            "t": pa.array([max(at, 0) for at in starts], pa.int64()),
        }
    )
    pq.write_table(table, folder / f"tmp-{number}")
    (folder / f"tmp-{number}").rename(folder / "in" / f"{number:04d}.parquet")


def feed(run: Run, folder: Path, numbers: Iterable[int], rows: int = ROWS_IN_FILE) -> None:
    for number in numbers:
        write_file(folder, number, rows)
        run.drain()


def answers(folder: Path, at: int, size: int, least: int = 0) -> list[tuple[Any, ...]]:
    """`item, count(*), sum(price)` of a window of this size, of bids of at least so much."""
    found = (
        duckdb.connect()
        .execute(
            f"SELECT item, count(*), sum(price)::BIGINT FROM '{folder}/in/*.parquet' "
            f"WHERE t <= {at} AND t + {size} > {at} AND price >= {least} "
            "GROUP BY item ORDER BY item"
        )
        .fetchall()
    )
    return [tuple(row) for row in found]


def snapshot(run: Run, at: int) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in run.snapshot(at).collect())


def instants(last: int, *of_interest: int) -> Iterator[int]:
    """Some instants, and all around those of interest."""
    chance = random.Random(last)
    found = {chance.randrange(last) for _ in range(12)}
    for each in of_interest:
        found |= {each - 1, each, each + 1}
    return iter(sorted(at for at in found if 0 <= at < last))


def counting(engine: Engine, size: int, least: int = 0) -> Stream:
    where = f"WHERE price >= {least}" if least else ""
    query: Stream = engine.sql(
        f"SELECT item, COUNT(*) AS n, SUM(price) AS total FROM Bid WINDOW(RANGE {size}) "
        f"{where} GROUP BY item"
    )
    return query
