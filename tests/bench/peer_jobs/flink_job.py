"""The three jobs in Flink SQL, with window table functions; its package cannot read Parquet."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.bench.peer_jobs.contract import serve

_WINDOW: Final = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(event_time), INTERVAL '10' SECOND))"
_NUMBER: Final = "UNIX_TIMESTAMP(CAST({} AS STRING)) / 10"
_SIDE: Final = f"(SELECT * FROM {_WINDOW})"
QUERIES: Final[Mapping[str, tuple[str, str]]] = {
    "tumbling": (
        "k BIGINT, w BIGINT, n BIGINT",
        f"SELECT k, {_NUMBER.format('window_start')}, COUNT(*) FROM {_WINDOW.format('rows_in')} "
        "GROUP BY k, window_start, window_end",
    ),
    "join": (
        "k BIGINT, w BIGINT, l BIGINT, r BIGINT",
        f"SELECT a.k, {_NUMBER.format('a.window_start')}, a.num, b.num "
        f"FROM {_SIDE.format('left_rows')} a JOIN {_SIDE.format('right_rows')} b ON a.k = b.k "
        "AND a.window_start = b.window_start AND a.window_end = b.window_end",
    ),
    # A file is no changelog to Flink: what is taken back is added up in its window first.
    "top": (
        "k BIGINT, w BIGINT, v BIGINT",
        f"SELECT k, {_NUMBER.format('window_start')}, v FROM (SELECT *, ROW_NUMBER() OVER "
        "(PARTITION BY window_start, window_end, k ORDER BY v DESC) AS place FROM "
        f"(SELECT k, v, window_start, window_end, SUM(op) FROM {_WINDOW.format('changes')} "
        "GROUP BY num, k, v, window_start, window_end HAVING SUM(op) > 0)) WHERE place <= 3",
    ),
}
SETTINGS: Final[Mapping[str, str]] = {
    "table.local-time-zone": "UTC",
    "parallelism.default": str(os.cpu_count()),
    "pipeline.object-reuse": "true",
    # Of the memory of its process, for windows and joins; the default is 128 MB.
    "taskmanager.memory.managed.size": "1g",
}
_TABLES: Final[Mapping[str, str]] = {
    "rows": "rows_in",
    "left_rows": "left_rows",
    "right_rows": "right_rows",
    "changes": "changes",
}


def _declare(environment: Any, folder: Path) -> None:
    for name, table in _TABLES.items():
        more = ", v BIGINT, op BIGINT" if name == "changes" else ""
        environment.execute_sql(
            f"CREATE TABLE {table} (num BIGINT, k BIGINT, ts BIGINT{more}, "
            "event_time AS TO_TIMESTAMP_LTZ(ts, 3), "
            "WATERMARK FOR event_time AS event_time - INTERVAL '5' SECOND) WITH "
            f"('connector' = 'filesystem', 'path' = '{(folder / 'bare' / name).as_uri()}', "
            "'format' = 'csv')"
        )


def _run(environment: Any, job: str, folder: Path, out: Path) -> None:
    if not list(environment.list_tables()):
        _declare(environment, folder)
    columns, query = QUERIES[job]
    sink = f"answer_{job}_{out.name.replace('-', '_')}"
    environment.execute_sql(
        f"CREATE TABLE {sink} ({columns}) WITH ('connector' = 'filesystem', "
        f"'path' = '{(out / 'answer').as_uri()}', 'format' = 'csv')"
    )
    environment.execute_sql(f"INSERT INTO {sink} {query}").wait()


if __name__ == "__main__":
    flink = importlib.import_module("pyflink.table")
    made = flink.TableEnvironment.create(flink.EnvironmentSettings.in_streaming_mode())

    for name, value in SETTINGS.items():
        made.get_config().set(name, value)
    serve({job: partial(_run, made, job) for job in QUERIES})
