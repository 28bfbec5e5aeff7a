"""Count per key and 10 seconds: Anabranch, native Spark, and Python state per key."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from anabranch.bench.checkout import spark_peers
from anabranch.bench.report import Form, Report, speed
from anabranch.bench.rows import write_elements, write_rows
from anabranch.bench.spark_times import batch_times, without_driver
from anabranch.engine import Engine

KEYS = 1_000
RATE = 20_000
_FASTER: Final = 1.03
"""A run that is not faster than the best by so much says that it is warm."""


@final
@dataclass(frozen=True, slots=True)
class TumblingSize:
    """How much is measured. The first batch of each run is warm-up.

    Before anything counts, Spark and we run up to `warm_ups` times, until that is no faster than
    the time before: Spark's compiler needs several runs.
    """

    files: int
    rows_per_file: int
    files_per_batch: int
    slow_files: int
    repeats: int
    warm_ups: int


SIZES: Final[Mapping[Form, TumblingSize]] = {
    "full": TumblingSize(
        files=28, rows_per_file=250_000, files_per_batch=4, slow_files=8, repeats=3, warm_ups=6
    ),
    "quick": TumblingSize(
        files=8, rows_per_file=100_000, files_per_batch=2, slow_files=2, repeats=1, warm_ups=2
    ),
    "smoke": TumblingSize(
        files=2, rows_per_file=1_000, files_per_batch=1, slow_files=1, repeats=1, warm_ups=0
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
    # Python state is slow: it gets the first files of the same input, in batches of their size.
    slow.mkdir()
    for file in sorted(rows.iterdir())[: size.slow_files]:
        (slow / file.name).symlink_to(file)
    speeds: dict[str, list[float]] = {}
    peers = spark_peers("tumbling")

    def note(name: str, repeat: int, batches: Sequence[Mapping[str, float]]) -> None:
        speeds.setdefault(name, []).append(speed(batches))
        report.measured(
            name, repeat=repeat, rows_per_s=round(speeds[name][-1]), batches=list(batches)
        )

    def native(work: Path) -> list[dict[str, float]]:
        path = work / "native"
        return batch_times(peers.native_tumbling(engine.spark, rows, path, size.files_per_batch))

    def own(work: Path) -> list[dict[str, float]]:
        return _anabranch(engine, rows, work / "own", size, ordered=True)

    def tasks(work: Path) -> list[dict[str, float]]:
        with without_driver(engine.spark):
            return own(work / "tasks")

    for name, run in (("spark", native), ("anabranch", own), ("tasks", tasks)):
        for count, rate in enumerate(_warm(run, root / f"warm-{name}", size.warm_ups)):
            report.measured(name, warm_up=count, rows_per_s=round(rate))
    for repeat in range(size.repeats):
        work = root / f"repeat-{repeat}"
        note("spark", repeat, native(work))
        note("anabranch", repeat, own(work))
        note("tasks", repeat, tasks(work))
        note("elements", repeat, _anabranch(engine, plain, work / "plain", size, ordered=False))
        note("corrected", repeat, _anabranch(engine, corrected, work / "10%", size, ordered=False))
    state = peers.python_state_tumbling(
        engine.spark, slow, root / "python-state", max(1, size.slow_files // 2)
    )
    note("python_state", 0, batch_times(state))
    median = {name: statistics.median(values) for name, values in speeds.items()}
    for name, value in median.items():
        report.figure(f"{name}_rows_per_s", value)
    report.figure("vs_spark", median["anabranch"] / median["spark"])
    report.figure("vs_spark_tasks", median["tasks"] / median["spark"])
    report.figure("vs_python_state", median["anabranch"] / median["python_state"])
    report.figure("with_corrections", median["corrected"] / median["elements"])


def _warm(
    run: Callable[[Path], Sequence[Mapping[str, float]]], root: Path, most: int
) -> Iterator[float]:
    """Run until that is no faster than before; rows per second of each time."""
    best = 0.0
    for count in range(most):
        rate = speed(run(root / str(count)))
        yield rate
        if rate < best * _FASTER:
            return
        best = max(best, rate)


def _anabranch(
    engine: Engine, folder: Path, work: Path, size: TumblingSize, *, ordered: bool
) -> list[dict[str, float]]:
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
