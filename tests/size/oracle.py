"""What a query answers at some instants, by DuckDB over the events in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import numpy as np
import pyarrow as pa

from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.legality import LegalityChecker, show_violation
from anabranch.model.time import BEGINNING

CLOSE = 1e-9
"""Variances differ by so much, relatively: DuckDB rounds after every row."""


def check_legal(batches: Sequence[EventBatch]) -> None:
    """What `anabranch check` does with a log."""
    checker = LegalityChecker()
    position = 1
    for batch in batches:
        said = [batch.stable] if batch.stable > BEGINNING else []
        arrivals = Arrivals(
            batch=batch,
            position=np.arange(position, position + len(batch)),
            is_adjust=batch.end != batch.start,
            stables=np.array(said, np.int64),
            stable_positions=np.array([position + len(batch)] * len(said), np.int64),
        )
        found = checker.feed(arrivals)
        assert not found, show_violation(found[0])
        position += len(batch) + 1


def compare(
    batches: Sequence[EventBatch],
    events: Mapping[str, pa.Table],
    text: str,
    instants: Sequence[int],
    close: Sequence[str] = (),
) -> int:
    """Compare an output with a query at instants; gives how many rows held there.

    Args:
        batches: The output.
        events: What each stream amounts to; tables have the columns `start` and `end`.
        text: The query over those tables, in which `$t` is the instant.
        instants: Where both are compared.
        close: Columns that agree up to `CLOSE`; all others agree exactly.
    """
    moves = EventBatch.concat(batches)
    names = moves.schema.names
    times = {"__start": moves.start, "__end": moves.end, "__new_end": moves.new_end}
    seen = 0
    with duckdb.connect(config={"threads": 2}) as connection:
        for name, table in events.items():
            connection.register(name, table)
        payload = dict(zip(names, moves.payload.columns, strict=True))
        connection.register("moves", pa.table({**payload, **times}))
        columns = ", ".join(f'"{name}"' for name in names)
        for instant in instants:
            # A row has moved an end from __end to __new_end: it holds where only the new one is.
            connection.execute(
                f"CREATE OR REPLACE TEMP TABLE got AS SELECT {columns}, sum(w) AS times FROM ("
                f"SELECT {columns}, (__new_end > $t)::INT - (__end > $t)::INT AS w "
                "FROM moves WHERE __start <= $t) GROUP BY ALL HAVING sum(w) <> 0",
                {"t": instant},
            )
            connection.execute(
                f"CREATE OR REPLACE TEMP TABLE expected AS SELECT {columns}, count(*) AS times "
                f"FROM ({text}) GROUP BY ALL",
                {"t": instant},
            )
            seen += _same(connection, names, close, instant)
    return seen


def _same(
    connection: duckdb.DuckDBPyConnection, names: Sequence[str], close: Sequence[str], instant: int
) -> int:
    exact = ", ".join(f'"{name}"' for name in [*(n for n in names if n not in close), "times"])
    for one, other in (("got", "expected"), ("expected", "got")):
        difference = connection.sql(
            f"SELECT {exact} FROM {one} EXCEPT ALL SELECT {exact} FROM {other}"
        )
        found = difference.limit(5).fetchall()
        assert not found, f"at {instant} only what was {one} has {exact}: {found}"
    for name in close:
        far = connection.sql(
            f'SELECT a."{name}", b."{name}" FROM got a JOIN expected b USING ({exact}) '
            f'WHERE NOT coalesce(abs(a."{name}" - b."{name}") <= {CLOSE} * (1 + abs(b."{name}")), '
            f'a."{name}" IS NULL AND b."{name}" IS NULL)'
        )
        apart = far.limit(5).fetchall()
        assert not apart, f"column {name} at {instant}: {apart}"
    counted = connection.sql("SELECT count(*) FROM got").fetchall()
    return int(counted[0][0])
