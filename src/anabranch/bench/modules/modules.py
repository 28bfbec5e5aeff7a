"""Modules of every shape: plain, on tables, with states; and beside Spark's pandas UDFs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anabranch.bench.modules.lab import SHAPES, ModulesSize
from anabranch.bench.modules.spark import on_spark
from anabranch.bench.modules.sweeps import lengths, overlaps
from anabranch.bench.report import Form, Report
from anabranch.kernels.columns import grouped as columns

SIZES: Final[Mapping[Form, ModulesSize]] = {
    "full": ModulesSize(
        events=200_000,
        batch=50_000,
        overlaps=(1, 2, 5, 10),
        lengths=(10, 30, 60, 120),
        small=120,
        warm_ups=5,
        repeats=3,
        files=16,
        rows_per_file=250_000,
        files_per_batch=4,
        on_spark=tuple(SHAPES),
    ),
    "quick": ModulesSize(
        events=100_000,
        batch=50_000,
        overlaps=(1, 5),
        lengths=(10, 40),
        small=40,
        warm_ups=2,
        repeats=1,
        files=8,
        rows_per_file=250_000,
        files_per_batch=4,
        on_spark=("vectorised",),
    ),
    "smoke": ModulesSize(
        events=10_000,
        batch=5_000,
        overlaps=(1, 2),
        lengths=(2, 4),
        small=4,
        warm_ups=0,
        repeats=1,
        files=2,
        rows_per_file=2_000,
        files_per_batch=1,
        on_spark=("vectorised",),
    ),
}


def modules(report: Report) -> None:
    """The mean in every shape, under growing overlap and growing length, and on Spark.

    Figures: `<shape>_events_per_s` and `<shape>_windows_per_s` in the kernel, in windows that do
    not overlap; `incremental_growth`, `plain_growth` and so on, the cost of an event with the
    longest windows over that with the shortest; `<who>_rows_per_s` on Spark;
    `vectorised_vs_spark_pandas`.
    """
    run_experiments(report, SIZES[report.form])


def run_experiments(report: Report, size: ModulesSize) -> None:
    """All experiments in one size."""
    columns.native()  # what is compiled is compiled now
    overlaps(report, size)
    lengths(report, size)
    if size.files:
        on_spark(report, size)
