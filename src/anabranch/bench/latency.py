"""The floor: how long a batch of a few rows takes, beside Spark's smallest stateful query."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from anabranch.bench.checkout import spark_peers
from anabranch.bench.report import Form, Report, floor
from anabranch.bench.rows import write_rows
from anabranch.bench.spark_times import Batches, batch_times, without_driver
from anabranch.bench.warming import warm_up
from anabranch.engine import Engine


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySize:
    """How many files there are, each of which is a batch, and how often all of them run.

    Before anything counts, each way runs up to `warm_ups` times, until that is no faster than
    before.
    """

    files: int
    repeats: int
    warm_ups: int


SIZES: Final[Mapping[Form, LatencySize]] = {
    "full": LatencySize(files=100, repeats=5, warm_ups=5),
    "quick": LatencySize(files=20, repeats=2, warm_ups=1),
    "smoke": LatencySize(files=3, repeats=1, warm_ups=0),
}


def latency(report: Report) -> None:
    """Tiny files, one per batch, the same session.

    Figures: `floor_vs_spark` and, with all batches as jobs of Spark, `floor_vs_spark_tasks`.
    """
    size = SIZES[report.form]
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    rows = root / "rows"
    write_rows(rows, files=size.files, rows_per_file=10, keys=5, per_second=10)
    peers = spark_peers("latency")
    try:
        with Engine(report.spark) as engine:

            def native(work: Path) -> Batches:
                return batch_times(peers.native_count(engine.spark, rows, work, 1))

            def own(work: Path) -> Batches:
                return _anabranch(engine, rows, work)

            def tasks(work: Path) -> Batches:
                with without_driver(engine.spark):
                    return own(work)

            ways = {"spark": native, "anabranch": own, "tasks": tasks}
            median = _medians(ways, root, size, report)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for name, value in median.items():
        report.figure(f"{name}_floor_ms", value * 1000)
    report.figure("floor_vs_spark", median["anabranch"] / median["spark"])
    report.figure("floor_vs_spark_tasks", median["tasks"] / median["spark"])


def _medians(
    ways: Mapping[str, Callable[[Path], Batches]], root: Path, size: LatencySize, report: Report
) -> dict[str, float]:
    """Seconds per batch of each way, all of them warm, one after the other in every repeat."""
    for name, run in ways.items():
        for count, rate in enumerate(warm_up(_rate(run, root / f"warm-{name}"), size.warm_ups)):
            report.measured(name, warm_up=count, floor_ms=round(1000 / rate, 1))
    floors: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(size.repeats):
        for name, run in ways.items():
            batches = run(root / f"repeat-{repeat}" / name)
            floors[name].append(floor(batches))
            report.measured(
                name,
                repeat=repeat,
                floor_ms=round(floors[name][-1] * 1000, 1),
                batches=[round(batch["seconds"] * 1000) for batch in batches],
            )
    return {name: statistics.median(values) for name, values in floors.items()}


def _rate(run: Callable[[Path], Batches], root: Path) -> Callable[[int], float]:
    """Batches per second of a run with a number."""
    return lambda number: 1 / floor(run(root / str(number)))


def _anabranch(engine: Engine, folder: Path, work: Path) -> Batches:
    stream = engine.stream(
        folder, name="rows", replace=True, start="ts", delay="1 second", max_files_per_batch=1
    )
    query = stream.window("10 seconds").group_by("k").agg(n="COUNT(*)")
    run = query.start(to=work / "log", checkpoint=work / "checkpoint", available_now=True)
    run.await_end()
    return [
        {
            "rows": float(batch["rows_in"]),
            "seconds": batch["milliseconds"]["triggerExecution"] / 1000,
        }
        for batch in run.metrics()
        if batch["rows_in"]
    ]
