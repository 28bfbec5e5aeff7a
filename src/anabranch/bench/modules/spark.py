"""The mean per key and ten seconds on Spark: ours in every shape, and Spark's own pandas UDF."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Final

from anabranch.bench.checkout import spark_peers
from anabranch.bench.cpu_time import cpu_seconds
from anabranch.bench.modules.lab import SHAPES, ModulesSize
from anabranch.bench.report import Report
from anabranch.bench.rows import write_rows
from anabranch.engine import Engine

KEYS: Final = 1_000
RATE: Final = 20_000


def on_spark(report: Report, size: ModulesSize) -> None:
    """Rows per second from the same Parquet files to results, in one session.

    Spark runs a pandas UDF over groups only where all rows are there: its job reads all files at
    once and throws the results away. Ours gets them batch by batch, keeps state and writes a log.
    The seconds of both are those of the whole job. A first run of each is warm-up. Seconds of
    cores are measured as well: those do not depend on what else the machine does.
    """
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    rows = size.files * size.rows_per_file
    everyone = ("spark_pandas", *size.on_spark)
    speeds: dict[str, list[float]] = {who: [] for who in everyone}
    per_core: dict[str, list[float]] = {who: [] for who in everyone}
    try:
        write_rows(
            root / "rows",
            files=size.files,
            rows_per_file=size.rows_per_file,
            keys=KEYS,
            per_second=RATE,
        )
        peers = spark_peers("modules")
        with Engine(report.spark) as engine:
            for repeat in range(-1, size.repeats):
                for who in everyone:
                    began, spent = perf_counter(), cpu_seconds()
                    if who == "spark_pandas":
                        windows = peers.pandas_tumbling(engine.spark, root / "rows")
                    else:
                        windows = answer(engine, root / "rows", root / who, who, size)
                    seconds, spent = perf_counter() - began, cpu_seconds() - spent
                    if repeat >= 0:
                        speeds[who].append(rows / seconds)
                        per_core[who].append(rows / spent)
                        report.measured(
                            who,
                            repeat=repeat,
                            rows_per_s=round(rows / seconds),
                            windows_per_s=round(windows / seconds),
                            seconds=round(seconds, 3),
                            cpu_seconds=round(spent, 3),
                        )
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for who, rates in speeds.items():
        name = who if who == "spark_pandas" else f"{who}_on_spark"
        report.figure(f"{name}_rows_per_s", statistics.median(rates))
    for shape in size.on_spark:
        for name, each in (("", speeds), ("_cpu", per_core)):
            ours, theirs = (statistics.median(each[who]) for who in (shape, "spark_pandas"))
            report.figure(f"{shape}_vs_spark_pandas{name}", ours / theirs)


def answer(engine: Engine, rows: Path, work: Path, shape: str, size: ModulesSize) -> int:
    """Run to the end; gives how many answers left."""
    stream = engine.stream(
        rows,
        name="rows",
        replace=True,
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
