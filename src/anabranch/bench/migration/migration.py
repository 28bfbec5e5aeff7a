"""The experiments of plan migration: Parallel Track, GenMig, its reference point, and clip.

Kraemer (2007, chapter 30) migrates a join of four streams from one order to another. The ways he
compares are implemented element by element, as he has them; clip runs beside them in the same
boxes, and with the product's own kernels.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from anabranch.bench.migration.experiments import output_and_memory, right_answers, total_cost
from anabranch.bench.migration.lab import MigrationLab, MigrationSize, join_streams
from anabranch.bench.migration.spark import SparkMigrationSize, on_spark
from anabranch.bench.report import Form, Report

SIZES: Final[Mapping[Form, MigrationSize]] = {
    "full": MigrationSize(
        elements=5_000, window=10, numbers=500, rounds=12, repeats=5, trials=1_500
    ),
    "quick": MigrationSize(elements=2_000, window=4, numbers=200, rounds=12, repeats=3, trials=200),
    "smoke": MigrationSize(elements=500, window=1, numbers=50, rounds=2, repeats=1, trials=10),
}

SPARK_SIZES: Final[Mapping[Form, SparkMigrationSize]] = {
    "full": SparkMigrationSize(
        rate=200_000,
        window=600,
        batch=4,
        before=20,
        trigger=1.0,
        long_rate=10_000,
        long_window=3_600,
        long_batch=60,
        long_after=120,
    ),
    "quick": SparkMigrationSize(
        rate=200_000,
        window=60,
        batch=2,
        before=12,
        trigger=0.5,
        long_rate=2_000,
        long_window=3_600,
        long_batch=120,
        long_after=60,
    ),
    "smoke": SparkMigrationSize(
        rate=100,
        window=20,
        batch=10,
        before=2,
        trigger=0.0,
        long_rate=10,
        long_window=60,
        long_batch=20,
        long_after=6,
    ),
}


def migration(report: Report) -> None:
    """Experiments 30-A, 30-B and 30-C; `published_that_hold` of `published`; ours on Spark."""
    run_experiments(report, SIZES[report.form])
    root = Path(tempfile.mkdtemp(prefix="anabranch-"))
    try:
        on_spark(report, SPARK_SIZES[report.form], root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def run_experiments(report: Report, size: MigrationSize) -> None:
    """All experiments in one size."""
    lab = MigrationLab(report, size, join_streams(size))
    report.measured(
        "setup", form=report.form, elements=size.elements, window=size.window, trials=size.trials
    )
    right_answers(lab)
    output_and_memory(lab)
    total_cost(lab)
    published = [holds for row, own in lab.checks.items() if row != "ours" for holds in own]
    report.figure("published", len(published))
    report.figure("published_that_hold", sum(published))
