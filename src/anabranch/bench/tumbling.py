"""Count per key and 10 seconds: Anabranch, native Spark, and Python state per key."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from anabranch.bench.checkout import spark_peers
from anabranch.bench.report import Form, Report, speed
from anabranch.bench.rows import write_elements, write_rows
from anabranch.bench.spark_times import Batches, batch_times, without_driver
from anabranch.bench.warming import warm_up
from anabranch.engine import Engine

KEYS = 1_000
RATE = 20_000


@final
@dataclass(frozen=True, slots=True)
class TumblingSize:
    """How much is measured. The first batch of each run is warm-up.

    Before anything counts, each way runs up to `warm_ups` times, until that is no faster than
    before. Python state is slow: it gets the first `slow_files` files, in batches of as many files
    as all others.
    """

    files: int
    rows_per_file: int
    files_per_batch: int
    repeats: int
    warm_ups: int
    slow_files: int


SIZES: Final[Mapping[Form, TumblingSize]] = {
    "full": TumblingSize(
        files=28,
        rows_per_file=250_000,
        files_per_batch=4,
        repeats=3,
        warm_ups=8,
        slow_files=12,
    ),
    "quick": TumblingSize(
        files=8,
        rows_per_file=100_000,
        files_per_batch=2,
        repeats=1,
        warm_ups=2,
        slow_files=4,
    ),
    "smoke": TumblingSize(
        files=2,
        rows_per_file=1_000,
        files_per_batch=1,
        repeats=1,
        warm_ups=0,
        slow_files=1,
    ),
}


def tumbling(report: Report) -> None:
    """Measure all on one Parquet input.

    Figures: `vs_spark` and, with all batches as jobs of Spark and none in the driver,
    `vs_spark_tasks`; `vs_python_state`, `with_corrections`.
    """
    size = SIZES[report.form]
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    try:
        with Engine(report.spark) as engine:
            _measure(engine, root, size, report)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _measure(engine: Engine, root: Path, size: TumblingSize, report: Report) -> None:
    rows, slow = root / "rows", root / "slow"
    plain, corrected = root / "elements", root / "corrected"
    for folder, share in ((plain, 0.0), (corrected, 0.1)):
        write_elements(
            folder,
            files=size.files,
            rows_per_file=size.rows_per_file,
            files_per_batch=size.files_per_batch,
            keys=KEYS,
            per_second=RATE,
            corrected=share,
        )
    write_rows(rows, files=size.files, rows_per_file=size.rows_per_file, keys=KEYS, per_second=RATE)
    slow.mkdir()
    for file in sorted(rows.iterdir())[: size.slow_files]:
        (slow / file.name).symlink_to(file)
    peers = spark_peers("tumbling")

    def native(work: Path) -> Batches:
        return batch_times(peers.native_tumbling(engine.spark, rows, work, size.files_per_batch))

    def own(work: Path) -> Batches:
        return _anabranch(engine, rows, work, size, ordered=True)

    def tasks(work: Path) -> Batches:
        with without_driver(engine.spark):
            return own(work)

    def elements(folder: Path) -> Callable[[Path], Batches]:
        return lambda work: _anabranch(engine, folder, work, size, ordered=False)

    def python_state(work: Path) -> Batches:
        return batch_times(
            peers.python_state_tumbling(engine.spark, slow, work, size.files_per_batch)
        )

    ways: Mapping[str, Callable[[Path], Batches]] = {
        "spark": native,
        "anabranch": own,
        "tasks": tasks,
        "elements": elements(plain),
        "corrected": elements(corrected),
        "python_state": python_state,
    }
    median = _medians(ways, root, size, report)
    for name, value in median.items():
        report.figure(f"{name}_rows_per_s", value)
    report.figure("vs_spark", median["anabranch"] / median["spark"])
    report.figure("vs_spark_tasks", median["tasks"] / median["spark"])
    report.figure("vs_python_state", median["anabranch"] / median["python_state"])
    report.figure("with_corrections", median["corrected"] / median["elements"])


def _medians(
    ways: Mapping[str, Callable[[Path], Batches]], root: Path, size: TumblingSize, report: Report
) -> dict[str, float]:
    """Rows per second of each way, all of them warm, one after the other in every repeat."""
    for name, run in ways.items():
        runs = warm_up(_numbered(run, root / f"warm-{name}"), size.warm_ups)
        for count, rate in enumerate(runs):
            report.measured(name, warm_up=count, rows_per_s=round(rate))
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(size.repeats):
        for name, run in ways.items():
            batches = run(root / f"repeat-{repeat}" / name)
            speeds[name].append(speed(batches))
            report.measured(
                name, repeat=repeat, rows_per_s=round(speeds[name][-1]), batches=list(batches)
            )
    return {name: statistics.median(values) for name, values in speeds.items()}


def _numbered(run: Callable[[Path], Batches], root: Path) -> Callable[[int], float]:
    return lambda number: speed(run(root / str(number)))


def _anabranch(
    engine: Engine, folder: Path, work: Path, size: TumblingSize, *, ordered: bool
) -> Batches:
    stream = engine.stream(
        folder,
        name="rows",
        replace=True,
        start="ts" if ordered else None,
        delay="5 seconds" if ordered else None,
        chronon=None if ordered else "1 microsecond",
        max_files_per_batch=size.files_per_batch,
        max_rows_per_batch=None,
    )
    query = stream.window("10 seconds", slide="10 seconds").group_by("k").agg(n="COUNT(*)")
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
