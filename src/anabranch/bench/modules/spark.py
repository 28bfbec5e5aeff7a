"""The mean per key and ten seconds on Spark: ours in every shape, and Spark's own pandas UDF."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Final

from anabranch.bench.checkout import spark_peers
from anabranch.bench.cpu_time import cpu_seconds
from anabranch.bench.modules.lab import SHAPES, ModulesSize
from anabranch.bench.report import Report
from anabranch.bench.rows import write_rows
from anabranch.bench.warming import warm_up
from anabranch.engine import Engine

KEYS: Final = 1_000
RATE: Final = 20_000


def on_spark(report: Report, size: ModulesSize) -> None:
    """Rows per second from the same Parquet files to results, in one session.

    Spark runs a pandas UDF over groups only where all rows are there: its job reads all files at
    once and throws the results away. Ours gets them batch by batch, keeps state and writes a log.
    The seconds of both are those of the whole job. Each runs until it is warm before anything
    counts. Seconds of cores are measured as well: those depend less on what else the machine does.
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

            def windows_of(who: str) -> int:
                if who == "spark_pandas":
                    return int(peers.pandas_tumbling(engine.spark, root / "rows"))
                return answer(engine, root / "rows", root / who, who, size)

            for who in everyone:
                for count, rate in enumerate(warm_up(_rate(windows_of, who, rows), size.warm_ups)):
                    report.measured(who, warm_up=count, rows_per_s=round(rate))
            for repeat in range(size.repeats):
                for who in everyone:
                    began, spent = perf_counter(), cpu_seconds()
                    windows = windows_of(who)
                    seconds, spent = perf_counter() - began, cpu_seconds() - spent
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


def _rate(windows_of: Callable[[str], int], who: str, rows: int) -> Callable[[int], float]:
    """Rows per second of a run."""

    def run(_number: int) -> float:
        began = perf_counter()
        windows_of(who)
        return rows / (perf_counter() - began)

    return run


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
