"""The benchmark `modules`: every shape is measured, and all of them say the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from anabranch.bench.cpu_time import cpu_seconds
from anabranch.bench.modules.lab import ROWS, SECOND, SHAPES, ModulesSize, feed, plan, run
from anabranch.bench.modules.modules import run_experiments
from anabranch.bench.modules.spark import answer
from anabranch.bench.report import Report
from anabranch.bench.rows import write_rows
from anabranch.engine import Engine
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.netting import net
from tests.bench import peers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = ModulesSize(
    events=60_000,
    batch=30_000,
    overlaps=(1, 2),
    lengths=(2, 4),
    small=4,
    warm_ups=0,
    repeats=1,
    files=0,
    rows_per_file=0,
    files_per_batch=1,
    on_spark=(),
)


@pytest.fixture(scope="module")
def lines() -> list[Mapping[str, Any]]:
    said: list[Mapping[str, Any]] = []
    report = Report("modules", said.append)
    run_experiments(report, TINY)
    report.close()
    return said


def test_every_shape_is_measured_under_every_overlap_and_length(
    lines: list[Mapping[str, Any]],
) -> None:
    overlaps = [(each["shape"], each["overlap"]) for each in lines if "overlap" in each]
    assert overlaps == [(shape, overlap) for shape in SHAPES for overlap in TINY.overlaps]
    lengths = [(each["shape"], each["window_s"]) for each in lines if "window_s" in each]
    assert lengths == [(shape, seconds) for shape in SHAPES for seconds in TINY.lengths]
    assert all(each["windows_per_s"] > 0 for each in lines if "shape" in each)
    figures = lines[-1]["figures"]
    assert {f"{shape}_growth" for shape in SHAPES} < set(figures)
    assert {f"{shape}_events_per_s" for shape in SHAPES} < set(figures)


@pytest.mark.parametrize("open_windows", [False, True])
def test_all_shapes_give_the_same_means(open_windows: bool) -> None:
    batches = feed(6_000, 1_500, keys=10, per_second=1_000)
    found = []
    for shape in SHAPES:
        runner = LocalRunner(plan(shape, 2 * SECOND, SECOND, open_windows=open_windows))
        said = net(EventBatch.concat([runner.step({ROWS.name: batch}) for batch in batches]))
        keys, means = (column.to_pylist() for column in said.payload.columns)
        found.append(sorted(zip(said.start.tolist(), keys, means)))
    for each in found[1:]:
        assert [row[:2] for row in each] == [row[:2] for row in found[0]]
        assert [row[2] for row in each] == pytest.approx([row[2] for row in found[0]])


def test_a_window_counts_as_often_as_it_is_answered_for() -> None:
    batches = feed(4_000, 1_000, keys=10, per_second=1_000)
    ended = run(plan("plain", SECOND, SECOND), batches)
    open_too = run(plan("plain", SECOND, SECOND, open_windows=True), batches)
    assert ended.events == open_too.events == 4_000
    assert 30 <= ended.windows < open_too.windows


def test_what_children_compute_counts() -> None:
    before = cpu_seconds()
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", busy], check=True)
    assert cpu_seconds() - before >= 0.25


@pytest.mark.spark
def test_spark_itself_and_modules_on_spark_answer_for_the_same_windows(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = tmp_path / "rows"
    write_rows(rows, files=2, rows_per_file=10_000, keys=10, per_second=500)
    times = pq.read_table(rows).column("ts").cast("int64").to_numpy()
    assert peers.pandas_tumbling(spark, rows) == 10 * (times.max() // (10 * SECOND) + 1)
    size = replace(TINY, files=2, rows_per_file=10_000)
    answers = answer(Engine(spark), rows, tmp_path / "work", "vectorised", size)
    # Nobody has promised yet that the last window is over.
    assert answers >= 10 * (times.max() // (10 * SECOND))
