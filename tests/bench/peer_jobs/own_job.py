"""The three jobs as users of Anabranch write them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.engine import Engine
from anabranch.stream import Stream
from tests.bench.peer_jobs.contract import Answer, serve

WINDOW: Final = "10 seconds"
FILES_PER_BATCH: Final = 4


def _rows(engine: Engine, folder: Path, name: str) -> Stream:
    stream = engine.stream(
        folder / "parquet" / name,
        name=name,
        replace=True,
        start="at",
        delay="5 seconds",
        max_files_per_batch=FILES_PER_BATCH,
    )
    return stream.window(WINDOW, slide=WINDOW)


def counts(rows: Stream) -> Stream:
    """The job `tumbling` over rows in windows, whatever format they come in."""
    return rows.group_by("k").agg(n="COUNT(*)")


def pairs(left: Stream, right: Stream) -> Stream:
    """The job `join`."""
    sides = left.select("k", l="row"), right.select("k", r="row")
    return sides[0].join(sides[1], on="k").select("k", "l", "r")


def _tumbling(engine: Engine, folder: Path) -> Stream:
    return counts(_rows(engine, folder, "rows"))


def _join(engine: Engine, folder: Path) -> Stream:
    return pairs(_rows(engine, folder, "left_rows"), _rows(engine, folder, "right_rows"))


def _top(engine: Engine, folder: Path) -> Stream:
    """Corrections are elements of the stream: an adjust withdraws what was inserted."""
    elements = engine.stream(
        folder / "parquet" / "elements",
        name="changes",
        replace=True,
        chronon="1 microsecond",
        max_files_per_batch=FILES_PER_BATCH,
    )
    return elements.window(WINDOW, slide=WINDOW).top(3, "v DESC", by="k")


def run_query(
    engine: Engine,
    query: Callable[[Engine, Path], Stream],
    folder: Path,
    out: Path,
    *,
    chronon: int = 1,
) -> Answer:
    """Run a query to its end; its instants are of so many microseconds."""
    run = query(engine, folder).start(
        to=out / "log", checkpoint=out / "checkpoint", available_now=True
    )
    run.await_end()

    def answer() -> None:
        events = run.events().to_arrow()
        columns = [
            _last_micros(events[name], chronon) if name in ("start", "end") else events[name]
            for name in events.column_names
        ]
        pq.write_table(pa.table(columns, events.column_names), out / "answer.parquet")

    return answer


def _last_micros(times: pa.ChunkedArray, chronon: int) -> pa.Array:
    """The last microsecond of each instant."""
    return pa.array((np.asarray(times.cast(pa.int64())) + 1) * chronon - 1)


if __name__ == "__main__":
    with Engine() as own:
        serve(
            {
                "tumbling": partial(run_query, own, _tumbling),
                "join": partial(run_query, own, _join),
                "top": partial(run_query, own, _top),
            }
        )
