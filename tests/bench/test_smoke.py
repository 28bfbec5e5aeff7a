"""Every benchmark runs in a form of seconds, so that none of them can break unseen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from anabranch.bench.catalog import BENCHES
from anabranch.bench.figures.targets import TARGETS
from anabranch.bench.names import ABOUT
from anabranch.bench.peers.contestants import CONTESTANTS, CONTROL
from anabranch.bench.peers.jobs import TABLES
from anabranch.bench.report import Report
from anabranch.cli.app import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIGURES: Mapping[str, tuple[str, ...]] = {
    "tumbling": ("vs_spark", "vs_spark_tasks", "vs_python_state", "with_corrections"),
    "latency": ("floor_vs_spark", "floor_vs_spark_tasks"),
    "endtoend": ("p50_vs_spark", "p99_vs_spark"),
    "operators": (
        "aggregate_events_per_s",
        "join_adjusted_events_per_s",
        "adjusted_join",
        "join_vs_anchor",
        "percentile_disc_vs_anchor",
        "worst_vs_anchor",
        "worst_vs_anchor_small",
        "state_growth",
        "withdrawal_growth",
    ),
    "growth": ("t10m_over_t10k",),
    "pipes": ("published", "published_that_hold"),
    "merge": ("r3_per_s", "r3_memory_10_over_2", "cleanse_memory_over_r3", "spark_per_s_core"),
    "revisions": (
        "archive_overhead",
        "archive_overhead_copied",
        "rm_vs_ra",
        "rw_vs_ra",
        "revision_ms",
        "vs_recompute",
        "index_bytes_per_million_rows",
        "planning_growth",
    ),
    "migration": (
        "published",
        "published_that_hold",
        "longest_pause_over_batch",
        "lost",
        "doubled",
        "duration_over_window",
    ),
    "reoptimize": ("reoptimize_gain", "change_batches", "planned_for_over_changed"),
    "modules": ("vectorised_vs_spark_pandas", "incremental_growth"),
    "start": ("import_s", "local_s", "first_result_s", "first_result_vs_spark"),
    "restart": ("session_s", "restart_growth"),
    "scale": (
        "local2_over_local1",
        "predicted_local2_over_local1",
        "prediction_error",
        "floor_ms",
        "row_us",
        "shard_ms",
        "cost_50m_over_1m",
        "cost_100m_over_1m",
        "cost_10m_keys_growth",
        "group_start_s",
        "group_batch_over_one",
        "peak_memory_mb",
        "memory_growth",
    ),
    "nexmark": ("q0_events_per_s", "q5_vs_spark", "ahead_of_spark", "worst_ratio", "pairs"),
    "peers": (
        "tumbling_vs_spark",
        "join_cpu_vs_spark",
        "top_vs_spark",
        "tumbling_csv_rows_per_s",
        "worst_vs_peers",
        "ahead",
        "pairs",
    ),
}
"""Figures that the documentation names, and that every form gives."""

PAGE_ROWS: Mapping[str, tuple[str, ...]] = {
    "nexmark": ("q0", "q5", "q12"),
    "peers": ("anabranch", "anabranch, CSV", "spark"),
}
"""What the tables of a page begin with."""


def test_every_benchmark_is_listed_and_judged() -> None:
    assert list(BENCHES) == list(ABOUT)
    assert set(FIGURES) == set(ABOUT)


def test_the_command_lists_all_benchmarks_with_a_line_each() -> None:
    for words in (["bench"], ["bench", "--help"]):
        said = CliRunner().invoke(app, words)
        assert said.exit_code == 0
        for name, about in ABOUT.items():
            assert re.search(rf"^ *{name} +{re.escape(about)}$", said.output, re.MULTILINE)


def test_a_benchmark_has_one_form_at_a_time() -> None:
    said = CliRunner().invoke(app, ["bench", "operators", "--quick", "--smoke"])
    assert said.exit_code == 2
    assert "exclude each other" in said.output


@pytest.mark.spark
@pytest.mark.parametrize("name", list(BENCHES))
def test_the_smoke_form_gives_the_figures_of_the_others(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    said: list[Mapping[str, Any]] = []
    report = Report(name, said.append, "smoke", spark)
    BENCHES[name].measure(report)
    report.close()
    assert len(said) > 1
    assert said[-1]["smoke"] is True
    assert set(FIGURES[name]) <= set(said[-1]["figures"])
    plot = BENCHES[name].plot
    if plot is not None and name in ("nexmark", "peers"):
        # The others have pages with tests of their own.
        plot(said, tmp_path / name)
        page = (tmp_path / f"{name}.md").read_text()
        assert all(
            f"`{figure}`" in page for figure in TARGETS[name] if figure in said[-1]["figures"]
        )
        assert all(f"| {row} |" in page for row in PAGE_ROWS[name])
        if name == "nexmark":
            assert "\n1,000 events; the form is `smoke`" in page
            assert page.count("An average batch takes") == len(PAGE_ROWS[name])
            assert page.count("The fastest of Spark's forms counts: published") == 2
    if name == "nexmark":
        engines = {line["engine"] for line in said if "engine" in line}
        assert engines == {"anabranch", "spark", "flink"}, "Flink runs, or it says why not"
    if name == "peers":
        engines = {line["engine"] for line in said if "engine" in line}
        every = {each.name for each in (*CONTESTANTS, CONTROL)}
        assert engines == every, "who is missing is named"
        for job in TABLES:
            assert said[-1]["figures"][f"{job}_anabranch_right"] == 1
            assert said[-1]["figures"][f"{job}_csv_right"] == 1
        missing = {line["engine"] for line in said if line.get("measurement") == "missing"}
        compared = len(engines - missing) - 2
        assert said[-1]["figures"]["pairs"] == len(TABLES) * compared
