"""The mean per key and ten seconds on Spark: ours in every shape, and Spark's own pandas UDF."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Final

from anabranch.bench.modules_lab import SHAPES, Size
from anabranch.bench.report import Report
from anabranch.bench.rows import write_rows
from anabranch.engine import Engine
from anabranch.runtime import peers

KEYS: Final = 1_000
RATE: Final = 20_000


def on_spark(report: Report, size: Size) -> None:
    """Rows per second from the same Parquet files to results, in one session.

    Spark runs a pandas UDF over groups only where all rows are there: its job reads all files at
    once and throws the results away. Ours gets them batch by batch, keeps state and writes a log.
    The seconds of both are those of the whole job. A first run of each is warm-up.
    """
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    rows = size.files * size.rows_per_file
    speeds: dict[str, list[float]] = {who: [] for who in ("spark_pandas", *SHAPES)}
    try:
        write_rows(
            root / "rows",
            files=size.files,
            rows_per_file=size.rows_per_file,
            keys=KEYS,
            per_second=RATE,
        )
        with Engine() as engine:
            for repeat in range(-1, size.repeats):
                for who, rates in speeds.items():
                    began = perf_counter()
                    if who == "spark_pandas":
                        windows = peers.pandas_tumbling(engine.spark, root / "rows")
                    else:
                        windows = answer(engine, root / "rows", root / who, who, size)
                    seconds = perf_counter() - began
                    if repeat >= 0:
                        rates.append(rows / seconds)
                        report.measured(
                            who,
                            repeat=repeat,
                            rows_per_s=round(rates[-1]),
                            windows_per_s=round(windows / seconds),
                            seconds=round(seconds, 3),
                        )
    finally:
        shutil.rmtree(root, ignore_errors=True)
    median = {who: statistics.median(rates) for who, rates in speeds.items()}
    for who, rate in median.items():
        name = who if who == "spark_pandas" else f"{who}_on_spark"
        report.figure(f"{name}_rows_per_s", rate)
        if who != "spark_pandas":
            report.figure(f"{who}_vs_spark_pandas", rate / median["spark_pandas"])


def answer(engine: Engine, rows: Path, work: Path, shape: str, size: Size) -> int:
    """Run to the end; gives how many answers left."""
    stream = engine.stream(
        rows,
        name="rows",
        start="ts",
        delay="1 second",
        max_files_per_batch=size.files_per_batch,
        max_rows_per_batch=None,
    )
    query = stream.tumbling("10 seconds", by="k").agg(mean=f"{SHAPES[shape]}(v)")
    run = query.start(to=work / "log", checkpoint=work / "checkpoint", available_now=True)
    run.await_end()
    answers = sum(int(batch["rows_out"]) for batch in run.metrics())
    shutil.rmtree(work, ignore_errors=True)
    return answers
