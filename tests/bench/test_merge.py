"""The benchmark `merge`: every row is measured, judged and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from anabranch.bench.merge.lab import MERGERS, MergeSize, feeds, race
from anabranch.bench.merge.merge import run_experiments
from anabranch.bench.merge.page import ROWS
from anabranch.bench.merge.plots import PLOTS, write_plots
from anabranch.bench.report import Report
from anabranch.workloads.lmerge import LMerge

TINY = MergeSize(
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
    spark=(0, 0),
    feedback=(0, 0),
)


@pytest.fixture(scope="module")
def lines() -> list[Mapping[str, Any]]:
    said: list[Mapping[str, Any]] = []
    report = Report("merge", said.append)
    run_experiments(report, TINY)
    report.close()
    return said


def test_every_row_says_what_was_published_and_whether_it_holds(
    lines: list[Mapping[str, Any]],
) -> None:
    verdicts = [line for line in lines if line.get("measurement") == "verdict"]
    assert [line["row"] for line in verdicts] == list(ROWS) == list(PLOTS)
    assert all(isinstance(line["holds"], bool) and line["expected"] for line in verdicts)
    figures = lines[-1]["figures"]
    assert figures["published"] == len(verdicts)
    assert figures["published_that_hold"] == sum(line["holds"] for line in verdicts)
    assert {f"r{case}_per_s" for case in range(5)} < set(figures)
    assert {"r3_memory_10_over_2", "cleanse_memory_over_r3", "feedback_speedup"} < set(figures)


def test_what_is_counted_does_not_depend_on_the_machine(lines: list[Mapping[str, Any]]) -> None:
    holds = {line["row"]: line["holds"] for line in lines if line.get("measurement") == "verdict"}
    assert holds["bursty"]
    assert lines[-1]["figures"]["cleanse_memory_over_r3"] > 1


def test_all_mergers_give_the_same_events() -> None:
    config = LMerge(events=1_000, case="r0", live=50, text=20)
    runs = race({name: make(3) for name, make in MERGERS.items()}, feeds(config, 3, 100))
    assert {run.inserts for run in runs.values()} == {1_000}
    assert {run.adjusts for run in runs.values()} == {0}


def test_drawings_and_page(lines: list[Mapping[str, Any]], tmp_path: Path) -> None:
    written = write_plots(lines, tmp_path / "merge")
    assert [path.stem for path in written] == list(PLOTS)
    for path in written:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    page = (tmp_path / "merge.md").read_text()
    assert all(f"(merge/{row}.svg)" in page for row in ROWS)
