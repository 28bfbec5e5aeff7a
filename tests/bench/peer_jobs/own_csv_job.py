"""The three jobs in Anabranch over the CSV files that Flink and Pathway read: a control.

Each of the two files has every second row: rows of the second would be late behind the first. So
both are declared to be all there is, as in Pathway, and read as one batch.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from anabranch.bench.peers.jobs import CSV_PARTS
from anabranch.engine import Engine
from anabranch.stream import Stream
from tests.bench.peer_jobs.contract import serve
from tests.bench.peer_jobs.own_job import WINDOW, counts, pairs, run_query


def _rows(engine: Engine, folder: Path, name: str) -> Stream:
    stream = engine.stream(
        folder / "csv" / name,
        name=name,
        replace=True,
        start="ts",
        chronon="1 millisecond",
        ends=True,
        max_files_per_batch=CSV_PARTS,
        max_rows_per_batch=None,
    )
    return stream.window(WINDOW, slide=WINDOW)


def _tumbling(engine: Engine, folder: Path) -> Stream:
    return counts(_rows(engine, folder, "rows"))


def _join(engine: Engine, folder: Path) -> Stream:
    return pairs(_rows(engine, folder, "left_rows"), _rows(engine, folder, "right_rows"))


def _top(engine: Engine, folder: Path) -> Stream:
    """What is taken back is added up in its window first, as in Flink and Pathway."""
    changes = _rows(engine, folder, "changes")
    live = changes.group_by("row", "k", "v").agg(n="SUM(op)").filter("n > 0")
    return live.select("k", "v").top(3, "v DESC", by="k")


if __name__ == "__main__":
    with Engine() as own:
        serve(
            {
                "tumbling": partial(run_query, own, _tumbling, chronon=1_000),
                "join": partial(run_query, own, _join, chronon=1_000),
                "top": partial(run_query, own, _top, chronon=1_000),
            }
        )
