"""The benchmark `migration`: what is counted is exact, judged, and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from anabranch.bench.figures.targets import TARGETS
from anabranch.bench.migration.answer import compare_with_duckdb
from anabranch.bench.migration.experiments import output_and_memory, right_answers, total_cost
from anabranch.bench.migration.lab import MigrationLab, MigrationSize, join_streams
from anabranch.bench.migration.migration import SIZES, SPARK_SIZES
from anabranch.bench.migration.plots import PLOTS, write_plots
from anabranch.bench.migration.spark import TickFiles
from anabranch.bench.migration.ways import WAYS
from anabranch.bench.report import Report
from anabranch.engine import Engine

MEASURED = (
    *("usual_s", "longest_s", "both_s", "switched_s", "took_s"),
    *("instants", "rows", "lost", "doubled"),
)
TINY = MigrationSize(elements=500, window=1, numbers=50, rounds=1, repeats=1, trials=20)


@pytest.fixture(scope="module")
def lines() -> list[Mapping[str, Any]]:
    said: list[Mapping[str, Any]] = []
    report = Report("migration", said.append, "smoke")
    report.measured("setup", form="smoke", elements=500, window=1, trials=20)
    lab = MigrationLab(report, TINY, join_streams(TINY))
    for experiment in (right_answers, output_and_memory, total_cost):
        experiment(lab)
    report.measured("ticks", **asdict(SPARK_SIZES["smoke"]))
    report.measured("spark", how="clip", **dict.fromkeys(MEASURED, 1))
    report.measured("refused", how="replay", reason="not possible\n  here")
    for name, target in TARGETS["migration"].items():
        report.figure(name, target.bound)
    report.close()
    return said


def test_every_way_runs_and_loses_nothing_of_a_join(lines: list[Mapping[str, Any]]) -> None:
    runs = {line["way"]: line for line in lines if line.get("measurement") == "run"}
    assert list(runs) == [*WAYS, "product"]
    assert all(line["lost"] == line["doubled"] == 0 for line in runs.values())
    assert runs["genmig"]["duration_over_window"] == pytest.approx(1, abs=0.05)
    assert runs["parallel track"]["duration_over_window"] == pytest.approx(2, abs=0.1)
    assert runs["clip"]["duration_over_window"] <= 1.0
    # Both cut the same results at the same instant.
    assert sum(runs["product"]["results"]) == pytest.approx(sum(runs["clip"]["results"]), rel=0.05)


def test_what_does_not_depend_on_the_machine_holds(lines: list[Mapping[str, Any]]) -> None:
    verdicts = [line for line in lines if line.get("measurement") == "verdict"]
    assert {line["row"] for line in verdicts} == {"28.2", "30-A", "30-B", "30-C", "ours"}
    failed = [line["statement"] for line in verdicts if not line["holds"] and line["row"] < "30-B"]
    assert failed == []


def test_drawings_and_page(lines: list[Mapping[str, Any]], tmp_path: Path) -> None:
    written = write_plots(lines, tmp_path / "migration")
    assert [path.stem for path in written] == list(PLOTS)
    for path in written:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    page = (tmp_path / "migration.md").read_text()
    assert all(f"(migration/{name}.svg)" in page for name in PLOTS)
    assert all(f"| `{name}` |" in page for name in TARGETS["migration"])
    assert "bench migration --smoke --json" in page
    assert "| clip | 1.00 | 1.00 | 1.00 | 1.0 | 1.0 | 1 | 1 | 1 | 1 |" in page
    assert "By replay it was refused: not possible;   here." in page


def test_a_log_is_compared_with_duckdb_at_every_instant(tmp_path: Path) -> None:
    """What is lost or doubled is seen: the same log beside rows that it does not come from."""
    ticks = TickFiles(tmp_path / "ticks", rate=50, seconds=10)
    ticks.write(0, 6)
    with Engine() as engine:
        engine.stream(ticks.folder, name="Tick", start="at", delay="1 second")
        engine.sql(
            "SELECT key, COUNT(*) AS n FROM Tick WINDOW(RANGE 30 SECONDS SLIDE 10 SECONDS) "
            "GROUP BY key"
        ).run_local(tmp_path / "log")
    right = compare_with_duckdb(tmp_path / "log", ticks.folder, window=30, slide=10)
    assert (right.instants, right.lost, right.doubled) == (5, 0, 0)
    assert right.rows > 1_000
    (ticks.folder / "000002.parquet").unlink()
    wrong = compare_with_duckdb(tmp_path / "log", ticks.folder, window=30, slide=10)
    # The 500 rows of a file have keys of their own, and are in three windows.
    assert wrong.doubled >= 1_500 > wrong.lost


def test_the_full_form_has_what_was_published() -> None:
    full = SIZES["full"]
    assert (full.elements, full.window, full.numbers) == (5_000, 10, 500)
    on_spark = SPARK_SIZES["full"]
    assert (on_spark.rate, on_spark.window, on_spark.long_window) == (200_000, 600, 3_600)
