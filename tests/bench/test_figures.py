from __future__ import annotations

from pathlib import Path

from anabranch.bench.figures.__main__ import page_of, read_figures
from anabranch.bench.figures.targets import TARGETS
from anabranch.bench.names import ABOUT


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
    assert "| tumbling | `vs_spark` | at least 2.5 | 2.9 | yes |" in page
    assert "| tumbling | `rows_per_s` | 4,000,000 |" in page
    assert "| growth | `t10m_over_t10k` | at most 1.5 | 2 | **no** |" in page
    assert "| pipes | `published` | 16 |" in page
    assert "Not measured in this run: latency, endtoend" in page
