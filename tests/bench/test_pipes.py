"""The benchmark `pipes`: what is counted is exact, whatever the machine does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from anabranch.bench.pipes.lab import PipesSize
from anabranch.bench.pipes.pipes import run_experiments
from anabranch.bench.pipes.plots import PLOTS, write_plots
from anabranch.bench.pipes.reference import load_reference
from anabranch.bench.pipes.workload import StreamFeed, numbers
from anabranch.bench.report import Report
from anabranch.errors import QueryError
from tests.bench.probes import waiting

TINY = PipesSize(bids=6_000, numbers=1_500, swept=800, batch=2_000, repeats=1, clock=False)


@pytest.fixture(scope="module")
def lines() -> list[Mapping[str, Any]]:
    said: list[Mapping[str, Any]] = []
    report = Report("pipes", said.append)
    run_experiments(report, TINY)
    report.close()
    return said


def test_counts_hold_exactly(lines: list[Mapping[str, Any]]) -> None:
    figures = lines[-1]["figures"]
    assert figures["e2_elements_ratio"] == 2
    assert figures["e4_avg_10min"] == pytest.approx(figures["e4_rate_times_10min"], rel=0.05)
    assert figures["e4_avg_5h"] == pytest.approx(figures["e4_rate_times_5h"], rel=0.05)
    assert figures["e4_avg_tia"] == 0
    assert figures["e5_inserts_tia"] == figures["e5_inserts_pna"]
    assert figures["e5_deletes_tia"] == figures["e5_deletes_pna"] == figures["e5_inserts_tia"]
    assert figures["e6_results_ratio"] < 1
    assert figures["e8_first_result_s"] == 2.0
    assert figures["e8_first_result_pna_s"] == 0
    assert figures["e8_together"] == 1


def test_every_experiment_says_what_was_published_and_whether_it_holds(
    lines: list[Mapping[str, Any]],
) -> None:
    statements = [line for line in lines if line.get("measurement") == "statement"]
    assert {line["experiment"] for line in statements} == {f"e{n}" for n in range(1, 12)}
    assert all(isinstance(line["holds"], bool) and line["published"] for line in statements)
    figures = lines[-1]["figures"]
    assert figures["published"] == len(statements)
    assert figures["published_that_hold"] == sum(line["holds"] for line in statements)


def test_plots(lines: list[Mapping[str, Any]], tmp_path: Path) -> None:
    written = write_plots(lines, tmp_path / "plots")
    assert [path.stem for path in written] == list(PLOTS)
    for path in written:
        assert path.stat().st_size < 60_000
        text = "".join(ElementTree.parse(path).getroot().itertext())
        assert path.stem.upper() in text


@pytest.mark.parametrize(("high", "expected"), [(1000, 0.5), (500, 1), (100, 5)])
def test_what_waits_in_the_queue_of_a_join(high: int, expected: float) -> None:
    feed: StreamFeed = numbers(15_000, 1, high)
    elements = feed.arrivals(("A", "B"), signed=False)
    assert waiting("input", elements, 5_000_000) == pytest.approx((1, 1), rel=0.05)
    assert waiting("list", elements, 5_000_000) == pytest.approx((expected, expected), rel=0.05)


def test_without_a_checkout_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="bench pipes needs a source checkout") as caught:
        load_reference(tmp_path)
    assert str(tmp_path) in caught.value.where
    assert "clone" in caught.value.hint
