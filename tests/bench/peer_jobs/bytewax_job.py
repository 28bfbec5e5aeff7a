"""The three jobs in Bytewax: each with as many processes as are fastest.

A second worker in one process would share its interpreter. Two processes are 1.5 times as fast as
one for the join, where a row costs 0.1 ms; for the others one is faster, since rows cross between
processes as pickles, one by one, which costs more than the rest of the job.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.bench.peer_jobs.bytewax_processes import Processes
from tests.bench.peer_jobs.contract import serve

BATCH_ROWS: Final = 10_000
"""A batch is a call for every key in it: with 1,000 rows of 1,000 keys, three times as long."""

TURN_SECONDS: Final = 0.5
"""Two inputs take turns, batch by batch: neither shall be far ahead of the other in event time."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)

op: Any = importlib.import_module("bytewax.operators")
windowing: Any = importlib.import_module("bytewax.operators.windowing")
inputs: Any = importlib.import_module("bytewax.inputs")
dataflow: Any = importlib.import_module("bytewax.dataflow")
files: Any = importlib.import_module("bytewax.connectors.files")
testing: Any = importlib.import_module("bytewax.testing")

Keyed = tuple[str, tuple[Any, ...]]


class Partition(inputs.StatelessSourcePartition):  # type: ignore[misc]
    """Rows of Parquet files as keyed tuples, which begin with their time."""

    def __init__(self, batches: Iterator[list[Keyed]]) -> None:
        """Takes them batch by batch."""
        self._batches = batches

    def next_batch(self) -> list[Keyed]:
        """Raises StopIteration at the end, as it should."""
        return next(self._batches)


class Source(inputs.DynamicSource):  # type: ignore[misc]
    """A folder of Parquet files; a worker takes the rows of some keys, as of a partitioned topic.

    So the rows of a key come in order, however far one worker is ahead of the other: event time is
    kept per key, and rows that are behind it are dropped.
    """

    def __init__(self, folder: Path, *columns: str, rows: int = BATCH_ROWS) -> None:
        """The columns follow the time; so many rows come at once."""
        self._folder, self._columns, self._rows = folder, columns, rows

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Partition:
        """What a worker reads."""
        del step_id
        return Partition(self._batches(worker_index, worker_count))

    def _batches(self, worker: int, workers: int) -> Iterator[list[Keyed]]:
        for path in sorted(self._folder.iterdir()):
            for batch in pq.ParquetFile(path).iter_batches(self._rows):
                own = _rows_of(worker, workers, batch) if workers > 1 else batch
                times = (time.replace(tzinfo=timezone.utc) for time in own["at"].to_pylist())
                values = (own[name].to_pylist() for name in self._columns)
                keys = map(str, own["k"].to_pylist())
                yield list(zip(keys, zip(times, *values, strict=True), strict=True))


def _rows_of(worker: int, workers: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    # Arrow has no remainder of a division.
    below = pc.multiply(pc.divide(batch["k"], workers), workers)
    return batch.filter(pc.equal(pc.subtract(batch["k"], below), worker))


def _rows_of_a_turn(folder: Path) -> int:
    """How many rows of a stream there are in `TURN_SECONDS`, by its first file."""
    times = pq.read_table(min(folder.iterdir()), columns=["ts"])["ts"]
    spent = pc.subtract(pc.max(times), pc.min(times)).as_py() / 1_000
    return min(BATCH_ROWS, int(len(times) * TURN_SECONDS / spent))


def _time(row: tuple[Any, ...]) -> Any:
    return row[0]


def _now() -> datetime:
    """Always the same: else its clock moves on with the machine's, and slow replays lose rows."""
    return _EPOCH


def _never(_close: datetime) -> None:
    """Rows close windows, and the end does.

    The clock stands still, so there is nothing to wake up for. By default keys would be woken at
    the end of their windows in event time, which is long ago: all of them, with every batch.
    """


CLOCK: Final = windowing.EventClock(
    _time,
    wait_for_system_duration=timedelta(seconds=5),
    now_getter=_now,
    to_system_utc=_never,
)
WINDOWS: Final = windowing.TumblingWindower(length=timedelta(seconds=10), align_to=_EPOCH)


def _tumbling(flow: Any, folder: Path) -> Any:
    rows = op.input("rows", flow, Source(folder / "parquet" / "rows"))
    counted = windowing.fold_window(
        "count", rows, CLOCK, WINDOWS, int, lambda n, _row: n + 1, lambda a, b: a + b
    )
    return op.map("text", counted.down, lambda kv: (kv[0], f"{kv[0]},{kv[1][0]},{kv[1][1]}"))


def _join(flow: Any, folder: Path) -> Any:
    names = ("left_rows", "right_rows")
    rows = min(_rows_of_a_turn(folder / "parquet" / name) for name in names)
    sides = [
        op.input(name, flow, Source(folder / "parquet" / name, "row", rows=rows)) for name in names
    ]
    joined = windowing.join_window(
        "join", CLOCK, WINDOWS, *sides, insert_mode="product", emit_mode="final"
    )

    def text(item: tuple[str, Any]) -> tuple[str, str] | None:
        key, (window, (left, right)) = item
        if left is None or right is None:
            return None
        return key, f"{key},{window},{left[1]},{right[1]}"

    return op.filter_map("text", joined.down, text)


def _top(flow: Any, folder: Path) -> Any:
    """Nothing is taken back: a set in every window is what user code makes of corrections."""
    rows = op.input("changes", flow, Source(folder / "parquet" / "changes", "v", "op"))

    def fold(held: set[int], row: tuple[Any, ...]) -> set[int]:
        (held.add if row[2] > 0 else held.discard)(row[1])
        return held

    sets = windowing.fold_window("held", rows, CLOCK, WINDOWS, set, fold, lambda a, b: a | b)

    def text(item: tuple[str, Any]) -> list[tuple[str, str]]:
        key, (window, held) = item
        return [(key, f"{key},{window},{v}") for v in sorted(held, reverse=True)[:3]]

    return op.flat_map("text", sets.down, text)


QUERIES: Final[Mapping[str, Callable[[Any, Path], Any]]] = {
    "tumbling": _tumbling,
    "join": _join,
    "top": _top,
}
IN_PROCESSES: Final = ("join",)


def _flow(job: str, folder: Path, out: Path) -> Any:
    flow = dataflow.Dataflow("job")
    answer = out / "answer"
    answer.mkdir(exist_ok=True)
    parts = (os.cpu_count() or 1) if job in IN_PROCESSES else 1
    op.output("out", QUERIES[job](flow, folder), files.DirSink(answer, parts))
    return flow


def _run(job: str, folder: Path, out: Path) -> None:
    testing.run_main(_flow(job, folder, out))


if __name__ == "__main__":
    several = Processes(_flow, os.cpu_count() or 1)
    serve({job: partial(several.run if job in IN_PROCESSES else _run, job) for job in QUERIES})
