"""The floor: how long a batch of a few rows takes, beside Spark's smallest stateful query."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from anabranch.bench.checkout import spark_peers
from anabranch.bench.report import Form, Report, floor
from anabranch.bench.rows import write_rows
from anabranch.bench.spark_times import batch_times, without_driver
from anabranch.engine import Engine

SIZES: Final[Mapping[Form, tuple[int, int]]] = {"full": (100, 5), "quick": (20, 2), "smoke": (3, 1)}
"""Files, each of which is a batch, and how often all of them run."""


def latency(report: Report) -> None:
    """Tiny files, one per batch, the same session.

    Figures: `floor_vs_spark` and, with all batches as jobs of Spark, `floor_vs_spark_tasks`.
    """
    files, repeats = SIZES[report.form]
    peers = spark_peers("latency")
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    write_rows(root / "rows", files=files, rows_per_file=10, keys=5, per_second=10)
    floors: dict[str, list[float]] = {"spark": [], "anabranch": [], "tasks": []}
    try:
        with Engine(report.spark) as engine:
            for repeat in range(repeats):
                work = root / f"repeat-{repeat}"
                query = peers.native_count(engine.spark, root / "rows", work / "spark", 1)
                times = {"spark": batch_times(query)}
                times["anabranch"] = _anabranch(engine, root / "rows", work)
                with without_driver(engine.spark):
                    times["tasks"] = _anabranch(engine, root / "rows", work / "tasks")
                for name, batches in times.items():
                    floors[name].append(floor(batches))
                    report.measured(
                        name,
                        repeat=repeat,
                        floor_ms=round(floors[name][-1] * 1000, 1),
                        batches=[round(batch["seconds"] * 1000) for batch in batches],
                    )
    finally:
        shutil.rmtree(root, ignore_errors=True)
    median = {name: statistics.median(values) for name, values in floors.items()}
    for name, value in median.items():
        report.figure(f"{name}_floor_ms", value * 1000)
    report.figure("floor_vs_spark", median["anabranch"] / median["spark"])
    report.figure("floor_vs_spark_tasks", median["tasks"] / median["spark"])


def _anabranch(engine: Engine, folder: Path, work: Path) -> list[dict[str, float]]:
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
