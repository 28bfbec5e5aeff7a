"""Windows of the time axis over results of windows and over edges, on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.engine import Engine

pytestmark = pytest.mark.spark

SAMPLES = [(6, 0), (8, 9), (7, 11), (7, 25), (9, 31), (0, 95)]

QUERIES = {
    "windows of the axis": "SELECT AVG(mean) AS mean FROM (SELECT AVG(v) AS mean FROM Sample "
    "GROUP BY TUMBLING(10)) GROUP BY TUMBLING(40)",
    "windows with a slide": "SELECT AVG(mean) AS mean FROM (SELECT AVG(v) AS mean FROM Sample "
    "WINDOW(RANGE 10 SLIDE 10)) GROUP BY TUMBLING(40, offset => 9)",
    "groups by bounds": "SELECT AVG(mean) AS mean FROM (SELECT AVG(v) AS mean FROM "
    "TUMBLE(Sample, DESCRIPTOR(at), 10) GROUP BY window_start, window_end) "
    "GROUP BY TUMBLING(40, offset => 9)",
    "edges": "SELECT AVG(v) + 0.1 AS mean FROM Signal GROUP BY TUMBLING(40)",
}


def test_equal_results_are_events_of_their_own(engine: Engine, tmp_path: Path) -> None:
    """Means 7, 7, 7, 9 have the mean 7.5; the samples themselves, all edges, 7.4."""
    folder = tmp_path / "samples"
    folder.mkdir()
    for number, (v, at) in enumerate(SAMPLES):
        (folder / f"{number}.jsonl").write_text(f'{{"k": 1, "v": {v}, "at": {at}}}\n')
    for name, edges in (("Sample", ""), ("Signal", "EDGES BY k")):
        engine.sql(
            f"CREATE OR REPLACE STREAM {name} (k INT, v INT, at BIGINT) SOURCE '{folder}' "
            f"ORDERED BY at {edges} WITH (ends = TRUE, max_files_per_batch = 2)"
        )
    places = [tmp_path / f"out{number}" for number in range(len(QUERIES))]
    queries = [engine.sql(text) for text in QUERIES.values()]
    runs = engine.start_all(queries, places, available_now=True)
    found = {}
    for name, run in zip(QUERIES, runs, strict=True):
        run.await_end()
        at = 30 if name in ("windows of the axis", "edges") else 40
        found[name] = [row["mean"] for row in run.snapshot(at).collect()]
    assert found == {
        "windows of the axis": [7.5],
        "windows with a slide": [7.5],
        "groups by bounds": [7.5],
        "edges": [7.5],
    }
