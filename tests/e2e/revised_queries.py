"""Queries over rows of which some come too late, and their answers by DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.engine import Engine, Stream
from anabranch.model.revision import Revision
from anabranch.model.time import FOREVER
from anabranch.runtime.sources.files.log_folder import LogFolder

KEYS: Final = 800
STEP: Final = 1000
"""A file is about so many instants."""

Answer: TypeAlias = Counter[tuple[Any, ...]]


def write_bids(folder: Path, files: range, rows: int, late: int) -> None:
    """Rows of the next files; some of each are from long before."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in files:
        random = np.random.default_rng(number)
        times = number * STEP + random.integers(0, STEP, rows)
        values = random.integers(0, 1000, rows)
        if number:
            times[:late] = random.integers(0, number * STEP, late)
            # Some of them are among the largest of their time.
            values[:late] += random.integers(0, 300, late)
        columns = {"k": random.integers(0, KEYS, rows), "v": values, "t": times}
        pq.write_table(pa.table(columns), folder / f"{number:03}.parquet")


def bids(engine: Engine, folder: Path, name: str = "Bid", **options: Any) -> Stream:
    given = {"delay": 50, "late": "revise", "max_files_per_batch": 2, **options}
    return engine.stream(folder, name=name, start="t", **given)


def direct_queries(bid: Stream, item: Stream) -> list[Stream]:
    """Corrections of these enter the running query."""
    other = item.window(4).select("k", w="v")
    return [
        bid.window(100, slide=100).group_by("k").agg(n="COUNT(*)", s="SUM(v)"),
        bid.window(60, slide=10).group_by("k % 50 AS g").agg(top="MAX(v)", mean="AVG(v)"),
        bid.window(6).join(other, ["k"]).select("k", "v", "w"),
        bid.where("v > 900").window(30).select("k").distinct(),
        bid.window(100, slide=50).select("k", "v").top(3, ["v DESC", "k"]),
    ]


def swapped_queries(bid: Stream) -> list[Stream]:
    """Corrections of these change the state of the query."""
    return [
        bid.rows_window(3, by="k", order_by="v").group_by("k").agg(n="COUNT(*)", s="SUM(v)"),
        bid.session_window(20, by="k").group_by("k").agg(n="COUNT(*)", s="SUM(v)"),
        bid.tumbling(40, by="k % 90 AS g").agg(n="COUNT(*)", s="SUM(v)").select("g", "n", "s"),
    ]


def window_of(t: int, size: int, slide: int = 1) -> str:
    """Which rows a window shows at an instant: its slides end at 9, 19, 29..."""
    last = (t + 1) // slide * slide - 1
    return f"t > {last - size} AND t <= {last}"


Query: TypeAlias = Callable[[int], str]

DIRECT: Final[Sequence[Query]] = (
    lambda t: f"SELECT k, count(*), sum(v) FROM Bid WHERE {window_of(t, 100, 100)} GROUP BY k",
    lambda t: f"SELECT k % 50, max(v), avg(v) FROM Bid WHERE {window_of(t, 60, 10)} GROUP BY ALL",
    lambda t: (
        f"SELECT b.k, b.v, i.v FROM (FROM Bid WHERE {window_of(t, 6)}) b"
        f" JOIN (FROM Item WHERE {window_of(t, 4)}) i ON b.k = i.k"
    ),
    lambda t: f"SELECT DISTINCT k FROM Bid WHERE v > 900 AND {window_of(t, 30)}",
    lambda t: (
        f"SELECT k, v FROM Bid WHERE {window_of(t, 100, 50)}"
        " QUALIFY row_number() OVER (ORDER BY v DESC, k) <= 3"
    ),
)
SWAPPED: Final[Sequence[Query]] = (
    lambda t: (
        f"SELECT k, count(*), sum(v) FROM (FROM Bid WHERE t <= {t} QUALIFY row_number()"
        " OVER (PARTITION BY k ORDER BY t DESC, v DESC) <= 3) GROUP BY k"
    ),
    lambda t: (
        "WITH g AS (SELECT k, v, t, t - lag(t) OVER w < 20 AS goes_on FROM Bid WINDOW w AS"
        " (PARTITION BY k ORDER BY t)), s AS (SELECT *, sum((goes_on IS NOT TRUE)::INT)"
        " OVER (PARTITION BY k ORDER BY t) AS number FROM g)"
        " SELECT k, count(*), sum(v) FROM s GROUP BY k, number"
        f" HAVING min(t) <= {t} AND max(t) + 20 > {t}"
    ),
    lambda t: f"SELECT k % 90, count(*), sum(v) FROM Bid WHERE t // 40 = {t} // 40 GROUP BY ALL",
)


def expected(query: Query, inputs: Mapping[str, Path], instant: int) -> Answer:
    """What an answer is at an instant, over all rows that have come."""
    with duckdb.connect() as connection:
        for name, folder in inputs.items():
            connection.sql(f"CREATE VIEW {name} AS FROM '{folder}/*.parquet'")
        return Counter(connection.sql(query(instant)).fetchall())


def moves_of(log: Path, known: int | None = None) -> tuple[pa.Table, int]:
    """All changes of the snapshots of a log, with its revisions; and its stable point."""
    tables, stable = [], 0
    for part in LogFolder(str(log)).parts():
        if isinstance(part, Revision):
            if known is not None and part.number > known:
                continue
            batch = part.changes
        else:
            batch, stable = part, part.stable
        table = pa.Table.from_batches([batch.payload])
        for name in ("end", "new_end"):
            table = table.append_column(f"_{name}", pa.array(getattr(batch, name)))
        tables.append(table)
    return pa.concat_tables(tables), int(stable)


def snapshot(moves: pa.Table, instant: int) -> Answer:
    """What holds at an instant."""
    names = ", ".join(f'"{name}"' for name in moves.column_names if not name.startswith("_"))
    with duckdb.connect() as connection:
        connection.register("moves", moves)
        found = connection.sql(
            f"SELECT {names}, sum(CASE WHEN _end <= {instant} AND {instant} < _new_end THEN 1"
            f" WHEN _new_end <= {instant} AND {instant} < _end THEN -1 ELSE 0 END)::BIGINT AS n"
            " FROM moves GROUP BY ALL HAVING n <> 0"
        ).fetchall()
    return Counter({tuple(row[:-1]): row[-1] for row in found})


def assert_answers(
    log: Path, query: Query, inputs: Mapping[str, Path], before: int, instants: int = 15
) -> None:
    """Snapshots of a log before an instant are those over all rows that have come."""
    moves, stable = moves_of(log)
    assert before <= stable < FOREVER
    chosen = np.random.default_rng(stable).integers(0, before, instants)
    for instant in [*map(int, chosen), before - 1]:
        found, wanted = snapshot(moves, instant), expected(query, inputs, instant)
        assert found == wanted, f"{log.name} at {instant}: {found - wanted}, {wanted - found}"


def assert_legal(log: Path) -> None:
    """Nothing changes what is settled, but revisions, which count up from 1."""
    numbers = [each.number for each in LogFolder(str(log)).revisions()]
    assert numbers == list(range(1, len(numbers) + 1))
    result = CliRunner().invoke(app, ["check", str(log)])
    assert result.exit_code == 0, result.output
