"""The three jobs in Bytewax: one worker, for a second one would share its interpreter."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from tests.bench.peer_jobs.contract import serve

BATCH_ROWS: Final = 100
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

    def __init__(self, folder: Path, columns: tuple[str, ...]) -> None:
        """The columns follow the time."""
        self._batches = self._read(sorted(folder.iterdir()), columns)

    @staticmethod
    def _read(paths: list[Path], columns: tuple[str, ...]) -> Iterator[list[Keyed]]:
        for path in paths:
            for batch in pq.ParquetFile(path).iter_batches(BATCH_ROWS):
                times = (time.replace(tzinfo=timezone.utc) for time in batch["at"].to_pylist())
                values = (batch[name].to_pylist() for name in columns)
                yield [
                    (str(key), rest)
                    for key, rest in zip(
                        batch["k"].to_pylist(), zip(times, *values, strict=True), strict=True
                    )
                ]

    def next_batch(self) -> list[Keyed]:
        """Raises StopIteration at the end, as it should."""
        return next(self._batches)


class Source(inputs.DynamicSource):  # type: ignore[misc]
    """A folder of Parquet files, for one worker."""

    def __init__(self, folder: Path, *columns: str) -> None:
        """The columns follow the time."""
        self._folder, self._columns = folder, columns

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Partition:
        """All of it."""
        del step_id, worker_index
        assert worker_count == 1
        return Partition(self._folder, self._columns)


def _time(row: tuple[Any, ...]) -> Any:
    return row[0]


def _now() -> datetime:
    """Always the same: else its clock moves on with the machine's, and slow replays lose rows."""
    return _EPOCH


CLOCK: Final = windowing.EventClock(
    _time, wait_for_system_duration=timedelta(seconds=5), now_getter=_now
)
WINDOWS: Final = windowing.TumblingWindower(length=timedelta(seconds=10), align_to=_EPOCH)


def _tumbling(flow: Any, folder: Path) -> Any:
    rows = op.input("rows", flow, Source(folder / "parquet" / "rows"))
    counted = windowing.fold_window(
        "count", rows, CLOCK, WINDOWS, int, lambda n, _row: n + 1, lambda a, b: a + b
    )
    return op.map("text", counted.down, lambda kv: (kv[0], f"{kv[0]},{kv[1][0]},{kv[1][1]}"))


def _join(flow: Any, folder: Path) -> Any:
    sides = [
        op.input(side, flow, Source(folder / "parquet" / side, "row"))
        for side in ("left_rows", "right_rows")
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


def _run(query: Callable[[Any, Path], Any], folder: Path, out: Path) -> None:
    flow = dataflow.Dataflow("job")
    op.output("out", query(flow, folder), files.FileSink(out / "answer.csv"))
    testing.run_main(flow)


if __name__ == "__main__":
    serve(
        {
            "tumbling": partial(_run, _tumbling),
            "join": partial(_run, _join),
            "top": partial(_run, _top),
        }
    )
