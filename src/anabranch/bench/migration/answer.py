"""What a log of a windowed count says at every instant, beside DuckDB over the rows themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import duckdb
import numpy as np
import pyarrow as pa

from anabranch.model.time import SECOND
from anabranch.runtime.sources.files.log_folder import LogFolder

_FROM_ROWS: Final = """
CREATE TABLE wanted AS
WITH counts AS (
  SELECT key, epoch_us("at") // {slide_us} AS slide, count(*) AS n
  FROM read_parquet('{folder}/*.parquet') GROUP BY ALL
), shown AS (
  -- A window is shown from its last instant on: h = slide * (i + 1) - 1.
  SELECT i, key, sum(n)::BIGINT AS n FROM counts, range(0, {slides}) AS every(i)
  WHERE slide <= i AND slide > i - {per_window} GROUP BY ALL
)
SELECT * FROM shown
"""

_FROM_LOG: Final = """
CREATE TABLE found AS
SELECT i, key, n, sum(sign)::BIGINT AS times
FROM moves, range(0, {slides}) AS every(i)
WHERE first <= (i + 1) * {slide_us} - 1 AND last > (i + 1) * {slide_us} - 1
GROUP BY ALL HAVING sum(sign) <> 0
"""

_COMPARED: Final = """
SELECT count(DISTINCT i), count(*) FILTER (right_ = 1),
       coalesce(sum(greatest(right_ - there, 0)), 0)::BIGINT,
       coalesce(sum(greatest(there - right_, 0)), 0)::BIGINT
FROM (
  SELECT coalesce(w.i, f.i) AS i, CASE WHEN w.i IS NULL THEN 0 ELSE 1 END AS right_,
         coalesce(f.times, 0) AS there
  FROM wanted AS w FULL JOIN found AS f ON w.i = f.i AND w.key = f.key AND w.n = f.n
)
"""


@final
@dataclass(frozen=True, slots=True)
class ComparedAnswer:
    """How a log compares with the right answer.

    Attributes:
        instants: How many instants were compared.
        rows: How many rows the right answer has at all of them.
        lost: Rows that are missing.
        doubled: Rows that are there too often, or should not be there.
    """

    instants: int
    rows: int
    lost: int
    doubled: int


def compare_with_duckdb(log: Path, rows: Path, *, window: int, slide: int) -> ComparedAnswer:
    """Compare all instants at which a window that slides ends, as far as the log is settled.

    The window and its slide are in seconds.
    """
    folder = LogFolder(str(log))
    stable, moves = _moves(folder)
    words = {
        "folder": rows,
        "slide_us": slide * SECOND,
        "slides": stable // (slide * SECOND),
        "per_window": window // slide,
    }
    with duckdb.connect() as connection:
        connection.register("moves", moves)
        connection.execute(_FROM_ROWS.format(**words))
        connection.execute(_FROM_LOG.format(**words))
        found = connection.execute(_COMPARED).fetchone()
    assert found is not None
    return ComparedAnswer(*(int(each) for each in found))


def _moves(log: LogFolder) -> tuple[int, pa.Table]:
    """What every row of the log adds, or takes away, and when."""
    schema = pa.schema(
        [
            *(("key", pa.int32()), ("n", pa.int64()), ("sign", pa.int8())),
            *(("first", pa.int64()), ("last", pa.int64())),
        ]
    )
    parts, stable = [pa.Table.from_batches([], schema)], 0
    for batch in log.read():
        stable = max(stable, int(batch.stable))
        columns = {
            "key": batch.payload.column("key"),
            "n": batch.payload.column("n"),
            "sign": pa.array(np.where(batch.new_end > batch.end, 1, -1), pa.int8()),
            "first": pa.array(np.minimum(batch.end, batch.new_end)),
            "last": pa.array(np.maximum(batch.end, batch.new_end)),
        }
        parts.append(pa.table(columns, schema))
    return stable, pa.concat_tables(parts)
