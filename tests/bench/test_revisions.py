"""The benchmark `revisions`: what it says becomes a page with a verdict per figure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from anabranch.bench.figures.targets import TARGETS
from anabranch.bench.revisions.index_growth import drawn_entries, drawn_segment
from anabranch.bench.revisions.lab import EVERY, QUERIES
from anabranch.bench.revisions.plots import PLOTS, write_plots
from anabranch.bench.revisions.published import PAPER
from anabranch.bench.revisions.revisions import SIZES
from anabranch.runtime.sources.archived.segment import table_of

Line = Mapping[str, Any]


def strategy(query: str, way: str, rate: str, ms: float) -> Line:
    return {
        "measurement": "strategy",
        "query": query,
        "way": way,
        "rate": rate,
        "revisions": 1,
        "stp_s": 2.0,
        "rtp_s": ms / 1000,
        "com_s": 2.0 + ms / 1000,
        "end_to_end_ms": 700,
        "replayed": 60_000,
        "processing_ms": [ms],
        "noticed_ms": [300],
        "all_end_to_end_ms": [700],
    }


LINES: list[Line] = [
    {"measurement": "setup", "form": "quick", "archived": 10, "chunk": 1, "streamed": 2},
    {
        "measurement": "index",
        "batches": 100,
        "rows_per_batch": 12_000,
        "files": 4,
        "bytes": 800,
        "where": "disk",
        "first_ms": {"median": 0.5, "mean": 0.6, "longest": 3.0},
        "last_ms": {"median": 0.6, "mean": 0.7, "longest": 9.0},
    },
    *(
        {"measurement": "overhead", "kept": kept, "batch_s": [0.5], "cpu_s": 1.0}
        for kept in ("nothing", "reference", "copy")
    ),
    {"measurement": "recompute", "query": "Q1", "seconds": 3.0},
    *(strategy("Q1", way, "HIGH", ms) for way, ms in (("RA", 900), ("RM", 10), ("RW", 20))),
    strategy("Q3", "RW", "LOW", 30),
    {"figures": {name: target.bound for name, target in TARGETS["revisions"].items()}},
]


def test_drawings_and_page(tmp_path: Path) -> None:
    written = write_plots(LINES, tmp_path / "revisions")
    assert [path.stem for path in written] == list(PLOTS)
    for path in written:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    page = (tmp_path / "revisions.md").read_text()
    assert all(f"(revisions/{name}.svg)" in page for name in PLOTS)
    assert all(f"| `{name}` |" in page for name in TARGETS["revisions"])
    assert "| Q1 HIGH: RTP of RA over RM | 47.2 | 90.0 | yes |" in page
    assert "| Q1 | 3.00 s | 20 ms | 150.0 | 4.3 |" in page
    assert "bench revisions --quick --json" in page


def test_an_overhead_is_not_judged_where_the_machine_was_not_steady(tmp_path: Path) -> None:
    again: Line = {"measurement": "overhead", "kept": "nothing", "batch_s": [1.0], "cpu_s": 1.0}
    write_plots([*LINES[:-1], again, LINES[-1]], tmp_path / "revisions")
    page = (tmp_path / "revisions.md").read_text()
    assert "| `archive_overhead` | at most 1.1 | 1.1 | unclear: the same batches" in page


def test_the_full_form_has_what_was_published() -> None:
    full = SIZES["full"]
    assert (full.archived, full.chunk * full.chunks) == (17_250_000, 1_000_000)
    per_rate = {rate: full.chunk * full.chunks // (full.chunks // EVERY[rate]) for rate in EVERY}
    assert per_rate == {"LOW": 1_000_000, "MOD": 500_000, "HIGH": 100_000}
    assert {query for query, _, _ in PAPER} == set(full.ways) == set(QUERIES)


def test_the_simulated_index_is_what_adding_batches_makes() -> None:
    assert drawn_segment(5, 50, 12_000).equals(table_of(drawn_entries(5, 50, 12_000)))
