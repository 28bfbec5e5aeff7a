"""The experiments on logical merge: every case beside a naive one, and beside ordering first.

Chandramouli et al. (2012, VI) measure memory, throughput, chattiness and latency of merging copies
of one stream, and what merging is good for: bursts, congestion, plans that take turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anabranch.bench.merge.feedback import plan_switching
from anabranch.bench.merge.lab import MergeLab, MergeSize
from anabranch.bench.merge.rates import bursty, congestion
from anabranch.bench.merge.spark import feedback_on_spark, on_spark
from anabranch.bench.merge.sweeps import (
    cleanse,
    each_case,
    inputs,
    lag,
    output_size,
    stable_shares,
)
from anabranch.bench.report import Form, Report
from anabranch.kernels.columns import grouped as columns

SIZES: Final[Mapping[Form, MergeSize]] = {
    "full": MergeSize(
        events=100_000,
        live=10_000,
        batch=10_000,
        text=1_000,
        inputs=(2, 4, 6, 8, 10),
        kernel=(400_000, 100_000),
        shares=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
        lags=(0, 1, 2, 3, 4, 5),
        stables=(0.00001, 0.0001, 0.001, 0.01),
        seconds=20,
        switched=(200_000, 0.1),
        repeats=5,
        spark=(8, 500_000),
        feedback=(8, 500_000),
    ),
    "quick": MergeSize(
        events=8_000,
        live=1_000,
        batch=2_000,
        text=1_000,
        inputs=(2, 10),
        kernel=(60_000, 30_000),
        shares=(0.0, 0.5),
        lags=(0, 5),
        stables=(0.0001, 0.01),
        seconds=3,
        switched=(30_000, 0.4),
        repeats=1,
        spark=(4, 30_000),
        feedback=(5, 300_000),
    ),
    "smoke": MergeSize(
        events=2_000,
        live=200,
        batch=500,
        text=100,
        inputs=(2, 4),
        kernel=(1_000, 500),
        shares=(0.0, 0.5),
        lags=(0, 1),
        stables=(0.001, 0.1),
        seconds=1,
        switched=(1_000, 3.0),
        repeats=1,
        spark=(2, 500),
        feedback=(4, 500),
    ),
}


def merge(report: Report) -> None:
    """All experiments; every row of them says whether the published shape holds.

    Figures: `r0_per_s` to `r4_per_s` (elements per second and core in the kernel, `prepare` and
    `advance`, three inputs, payloads of 1000 bytes) and `r0_short_per_s` to `r4_short_per_s` (of 16
    bytes), `r3_memory_10_over_2`, `cleanse_memory_over_r3`, `bursty_in_over_out`,
    `feedback_speedup` (simulated, as published), `spark_per_s_core`, `feedback_spark` (how much
    sooner a real query has caught up with feedback of a merge than without),
    `feedback_spark_skipped` (the share of rows that it left out), `feedback_spark_diverged`,
    `published` and `published_that_hold`.
    """
    run_experiments(report, SIZES[report.form])


def run_experiments(report: Report, size: MergeSize) -> None:
    """All experiments in one size."""
    columns.native()  # what is compiled is compiled now
    lab = MergeLab(report, size)
    for experiment in (
        each_case,
        inputs,
        output_size,
        lag,
        stable_shares,
        cleanse,
        bursty,
        congestion,
        plan_switching,
    ):
        experiment(lab)
    if size.spark[0]:
        on_spark(lab)
        feedback_on_spark(lab)
    report.figure("published", len(lab.checks))
    report.figure("published_that_hold", sum(lab.checks))
