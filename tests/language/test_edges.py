"""Sources of edges: a row holds until the next one of its key, and is an event of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.algebra.count_window import CountWindow
from anabranch.errors import PlanError, StreamError

ROWS = [("a", 7, 0), ("b", 1, 1), ("a", 7, 2), ("a", 9, 5), ("a", 0, 10), ("b", 3, 20)]


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.jsonl"
    lines = [f'{{"sensor": "{key}", "v": {v}, "at": {at}}}' for key, v, at in ROWS]
    path.write_text("\n".join(lines) + "\n")
    return path


def declared(samples: Path, edges: str = "EDGES BY sensor") -> ab.Engine:
    engine = ab.Engine()
    engine.sql(
        f"CREATE STREAM Sample (sensor TEXT, v BIGINT, at BIGINT) SOURCE '{samples}' "
        f"ORDERED BY at {edges} WITH (ends = TRUE)"
    )
    return engine


def inserted(run: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run.table().to_pylist()
    return [row for row in rows if row["kind"] == "insert"]


def test_python_and_sql_say_the_same(samples: Path) -> None:
    engine = declared(samples)
    query = engine.sql("SELECT * FROM Sample").node
    held = next(each for each in query.walk() if isinstance(each, CountWindow))
    other = ab.Engine().stream(
        samples, name="Sample", start="at", edges="sensor", hide_times=True, ends=True
    )
    assert isinstance(other.node, CountWindow)
    assert other.node == held
    assert other.node.label == "CountWindow 1 by sensor"
    twin = ab.Engine().stream(samples, name="Sample", start="at", hide_times=True, ends=True)
    assert twin.rows_window(1, by="sensor").node == other.node
    assert "CountWindow 1 by sensor" in engine.sql("SELECT * FROM Sample").explain()


def test_a_row_holds_until_the_next_one_of_its_key(samples: Path) -> None:
    run = declared(samples).sql("SELECT sensor, v FROM Sample").run_local("memory")
    found = {(row["sensor"], row["v"], row["start"], row["end"]) for row in inserted(run)}
    known = {("a", 7, 0, 2), ("a", 7, 2, 5), ("a", 9, 5, 10), ("b", 1, 1, 20)}
    assert known <= found
    assert {("a", 0, 10), ("b", 3, 20)} <= {row[:3] for row in found}


def test_equal_samples_are_samples_of_their_own(samples: Path) -> None:
    """Sensor a says 7, 7, 9, 0: four events, with the mean 5.75, and 7 for five instants."""
    engine = declared(samples)
    query = engine.sql(
        "SELECT sensor, COUNT(*) AS n, AVG(v) AS mean FROM Sample "
        "GROUP BY sensor, TUMBLING(100, clip => 'full', open_windows => true)"
    )
    assert "events are kept" in query.explain()
    rows = [(row["sensor"], row["n"], row["mean"]) for row in inserted(query.run_local("memory"))]
    assert ("a", 4, 5.75) in rows
    assert ("b", 2, 2.0) in rows


def test_without_a_key_all_rows_are_one_signal(samples: Path) -> None:
    node = declared(samples, "EDGES").sql("SELECT * FROM Sample").node
    held = next(each for each in node.walk() if isinstance(each, CountWindow))
    assert held.partition_by == ()
    alone = ab.Engine().stream(samples, start="at", edges=[])
    assert alone.node.label == "CountWindow 1"


def test_what_cannot_be_edges_is_refused(samples: Path, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no column 'senso'") as raised:
        ab.Engine().stream(samples, start="at", edges=["senso"])
    assert "columns are: sensor, v" in str(raised.value)
    with pytest.raises(PlanError, match="rows with an end of their own"):
        ab.Engine().stream(samples, start="at", end="v", edges="sensor")
    with pytest.raises(PlanError, match="edges must be the name of a column"):
        ab.Engine().stream(samples, start="at", edges=True)  # type: ignore[arg-type]
    log = tmp_path / "elements.jsonl"
    log.write_text('{"insert": {"sensor": "a"}, "start": 5, "end": 9}\n')
    with pytest.raises(PlanError, match="EDGES BY"):
        ab.Engine().stream(log, edges="sensor")
    with pytest.raises(PlanError, match="no column 'x'"):
        declared(samples, "EDGES BY x")


def test_two_samples_at_one_instant_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "twice.jsonl"
    path.write_text('{"k": 1, "v": 1, "at": 1}\n{"k": 1, "v": 2, "at": 1}\n')
    stream = ab.Engine().stream(path, start="at", edges="k", ends=True)
    with pytest.raises(StreamError, match="two elements at one instant"):
        stream.run_local("memory")
