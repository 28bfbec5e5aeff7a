"""Windows over derived streams on microseconds, and what DuckDB finds out about them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.model.time import FOREVER

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
BEGIN: Final = 1_770_000_000 * SECOND // MINUTE * MINUTE
HOURS: Final = 3

DECLARATION: Final = """
CREATE STREAM Bid (item BIGINT, price DOUBLE, at TIMESTAMP) SOURCE '{folder}'
ORDERED BY at WITH (ends = TRUE);
CREATE VIEW Mean AS
  SELECT item, AVG(price) AS mean FROM Bid WINDOW(RANGE 10 MINUTES SLIDE 1 MINUTE) GROUP BY item;
CREATE VIEW Busy AS
  SELECT item FROM Bid WINDOW(RANGE 5 MINUTES) GROUP BY item HAVING COUNT(*) >= 3;
"""

# Results of the minute that ends before `h + 1`, shown from h on for a minute; `busy` holds from
# the third bid within five minutes until the first of them is older than that.
_VIEWS: Final = f"""
CREATE VIEW means AS
  SELECT h, item, avg(price) AS mean, count(*) AS n
  FROM (SELECT unnest(range({BEGIN}, {BEGIN + HOURS * HOUR} + 700 * {SECOND}, {MINUTE})) - 1 AS h),
       bids WHERE u <= h AND u > h - 10 * {MINUTE} GROUP BY h, item;
CREATE VIEW busy AS
  SELECT item, u AS first, early + 5 * {MINUTE} AS till
  FROM (SELECT item, u, lag(u, 2) OVER (PARTITION BY item ORDER BY u) AS early FROM bids)
  WHERE u - early < 5 * {MINUTE};
"""

QUERIES: Final[dict[str, tuple[str, str]]] = {
    "a maximum of means": (
        "SELECT MAX(mean) AS top FROM Mean WINDOW(RANGE 1 HOUR)",
        f"SELECT max(mean) FROM means WHERE h <= $t AND h + {MINUTE} > $t - {HOUR} + 1 "
        "HAVING count(*) > 0",
    ),
    "a maximum of means by item": (
        "SELECT item, MAX(mean) AS top, MIN(mean) AS least FROM Mean WINDOW(RANGE 1 HOUR) "
        "GROUP BY item",
        "SELECT item, max(mean), min(mean) FROM means "
        f"WHERE h <= $t AND h + {MINUTE} > $t - {HOUR} + 1 GROUP BY item",
    ),
    "different items": (
        "SELECT DISTINCT item FROM Busy WINDOW(RANGE 30 MINUTES)",
        f"SELECT DISTINCT item FROM busy WHERE first <= $t AND till > $t - 30 * {MINUTE} + 1",
    ),
    "a count of different items": (
        "SELECT COUNT(DISTINCT item) AS items FROM Busy WINDOW(RANGE 30 MINUTES SLIDE 1 MINUTE)",
        "SELECT count(DISTINCT item) FROM (SELECT *, "
        f"($t + 1) // {MINUTE} * {MINUTE} - 1 AS w FROM busy) "
        f"WHERE first <= w AND till > w - 30 * {MINUTE} + 1 HAVING count(*) > 0",
    ),
    "a semi join": (
        "SELECT item, price FROM Bid WINDOW(RANGE 1 MINUTE) "
        "WHERE item IN (SELECT item FROM Busy WINDOW(RANGE 30 MINUTES))",
        f"SELECT item, price FROM bids WHERE u <= $t AND u > $t - {MINUTE} AND item IN "
        f"(SELECT item FROM busy WHERE first <= $t AND till > $t - 30 * {MINUTE} + 1)",
    ),
    "an anti join": (
        "SELECT item, price FROM Bid WINDOW(RANGE 1 MINUTE) "
        "WHERE item NOT IN (SELECT item FROM Busy WINDOW(RANGE 30 MINUTES))",
        f"SELECT item, price FROM bids WHERE u <= $t AND u > $t - {MINUTE} AND item NOT IN "
        f"(SELECT item FROM busy WHERE first <= $t AND till > $t - 30 * {MINUTE} + 1)",
    ),
    "a mean weighed by time": (
        "SELECT AVG(mean) AS mean, COUNT(*) AS held FROM Mean WINDOW(RANGE 1 HOUR SLIDE 5 MINUTES)",
        f"SELECT sum(mean * held) / sum(held), sum(held)::BIGINT FROM (SELECT mean, "
        f"least(h + {MINUTE}, w + 1) - greatest(h, w + 1 - {HOUR}) AS held FROM "
        f"(SELECT *, ($t + 1) // (5 * {MINUTE}) * (5 * {MINUTE}) - 1 AS w FROM means)) "
        "WHERE held > 0 HAVING count(*) > 0",
    ),
    "a count on a grid": (
        "SELECT item, COUNT(*) AS held FROM Busy WINDOW(RANGE 30 MINUTES) "
        "GRANULARITY(1 MINUTE) GROUP BY item",
        "SELECT item, sum(held)::BIGINT FROM (SELECT item, "
        f"least(till, g + 1) - greatest(first, g + 1 - 30 * {MINUTE}) AS held FROM "
        f"(SELECT *, $t // {MINUTE} * {MINUTE} AS g FROM merged)) WHERE held > 0 GROUP BY item",
    ),
}

REFUSED: Final = {
    "a mean at every instant": "SELECT AVG(mean) AS mean FROM Mean WINDOW(RANGE 1 HOUR)",
    "copies at the end": "SELECT item FROM Busy WINDOW(RANGE 30 MINUTES)",
    "copies in a join": "SELECT b.item FROM Bid WINDOW(RANGE 1 MINUTE) AS b, "
    "Mean WINDOW(RANGE 1 HOUR) AS m WHERE b.item = m.item",
    "a median": "SELECT MEDIAN(mean) AS mid FROM Mean WINDOW(RANGE 1 HOUR SLIDE 1 MINUTE)",
}


def write_bids(folder: Path, rows: int = 240, files: int = 3) -> Path:
    """Bids on a few items, at any microsecond of some hours."""
    draw = random.Random(5)
    times = sorted(draw.sample(range(BEGIN, BEGIN + HOURS * HOUR), rows))
    folder.mkdir()
    table = pa.table(
        {
            "item": [draw.randrange(6) for _ in times],
            "price": [draw.randrange(1, 4000) / 8 for _ in times],
            "at": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )
    each = -(-rows // files)
    for number in range(files):
        pq.write_table(table.slice(number * each, each), folder / f"{number}.parquet")
    return folder


def instants() -> list[int]:
    """On the grid, just before and behind it, and in between."""
    draw = random.Random(9)
    some = [BEGIN + draw.randrange((HOURS + 1) * HOUR) for _ in range(10)]
    grid = [time // MINUTE * MINUTE + more for time in some for more in (-1, 0)]
    return [*some, *grid]


def expected(folder: Path, sql: str) -> Callable[[int], Counter[Any]]:
    """The answer at an instant, according to DuckDB."""
    db = duckdb.connect(config={"threads": 1})
    db.execute(
        'CREATE TABLE bids AS SELECT item, price, epoch_us("at") AS u '
        f"FROM read_parquet('{folder}/*.parquet')"
    )
    db.execute(_VIEWS)
    db.execute("CREATE TABLE merged (item BIGINT, first BIGINT, till BIGINT)")
    db.executemany("INSERT INTO merged VALUES (?, ?, ?)", _merged(db.sql("FROM busy").fetchall()))
    return lambda t: Counter(map(_rounded, db.execute(sql, {"t": t}).fetchall()))


def _merged(stretches: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Stretches of one item that overlap or meet, as one."""
    found: list[tuple[int, int, int]] = []
    for item, first, till in sorted(stretches):
        if found and found[-1][0] == item and first <= found[-1][2]:
            found[-1] = (item, found[-1][1], max(till, found[-1][2]))
        else:
            found.append((item, first, till))
    return found


def answers(elements: pa.Table) -> Callable[[int], Counter[Any]]:
    """The answer at an instant, according to the elements that left a query."""
    names = [n for n in elements.column_names if n not in ("kind", "start", "end", "new_end")]
    rows = elements.to_pylist()

    def time(value: Any) -> int:
        if value is None:
            return int(FOREVER)
        return value if isinstance(value, int) else round(value.timestamp() * SECOND)

    moves = [
        (
            _rounded(tuple(row[name] for name in names)),
            time(row["start"]) if row["kind"] == "insert" else time(row["end"]),
            time(row["end"]) if row["kind"] == "insert" else time(row["new_end"]),
        )
        for row in rows
        if row["kind"] != "stable"
    ]

    def at(t: int) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for payload, begin, end in moves:
            found[payload] += (begin <= t < end) - (end <= t < begin)
        return +found

    return at


def _rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """DuckDB sums floats in another order."""
    return tuple(round(value, 6) if isinstance(value, float) else value for value in row)
