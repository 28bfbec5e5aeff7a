"""FOR KNOWN AS OF reads a stream from its archive, as it was known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.algebra.source import Source
from anabranch.runtime.sources.spec import FileSource, KnowledgePoint

COLUMNS = "(symbol TEXT, price DOUBLE, at TIMESTAMP)"
NOON = "TIMESTAMP '2024-01-01 12:00:00'"


@pytest.fixture
def engine(tmp_path: Path) -> ab.Engine:
    (tmp_path / "quotes.jsonl").write_text(
        '{"symbol": "a", "price": 1.0, "at": "2024-01-01T00:00:00"}\n'
    )
    found, path = ab.Engine(), tmp_path / "quotes.jsonl"
    found.sql(f"""
        CREATE STREAM Quote {COLUMNS} SOURCE '{path}' ORDERED BY at KEEP DELAY 2 SECONDS
          LATE REVISE ARCHIVE '{tmp_path / "kept"}' KEEP 30 DAYS;
        CREATE STREAM Edges {COLUMNS} SOURCE '{path}' ORDERED BY at EDGES BY symbol
          ARCHIVE '{tmp_path / "edges"}';
        CREATE STREAM Own {COLUMNS} SOURCE '{path}' ORDERED BY at LATE REVISE;
        CREATE STREAM Plain {COLUMNS} SOURCE '{path}' ORDERED BY at;
        CREATE VIEW Dear AS SELECT symbol FROM Quote WHERE price > 5;
        CREATE TABLE Known (symbol TEXT, price DOUBLE) SOURCE '{path}';
    """)
    return found


def leaves(query: Any) -> list[str]:
    return [node.name for node in query.node.walk() if isinstance(node, Source)]


@pytest.mark.parametrize(
    ("behind", "name", "known"),
    [
        ("FOR KNOWN AS OF 3", "Quote@known=3", KnowledgePoint(revision=3)),
        ("for known as of 0 q", "Quote@known=0", KnowledgePoint(revision=0)),
        ("AS q FOR KNOWN AS OF 3", "Quote@known=3", KnowledgePoint(revision=3)),
        (
            f"FOR KNOWN AS OF {NOON} AS q",
            "Quote@known=2024-01-01T12:00:00",
            KnowledgePoint(instant=1_704_110_400_000_000),
        ),
        (
            "FOR KNOWN AS OF 7 WINDOW(RANGE 5 MINUTES) q",
            "Quote@known=7",
            KnowledgePoint(revision=7),
        ),
        (
            "FOR KNOWN AS OF 7 q WINDOW(RANGE 5 MINUTES)",
            "Quote@known=7",
            KnowledgePoint(revision=7),
        ),
    ],
)
def test_what_was_known_is_a_stream_of_its_own(
    engine: ab.Engine, tmp_path: Path, behind: str, name: str, known: KnowledgePoint
) -> None:
    query = engine.sql(f"SELECT symbol FROM Quote {behind}")
    assert leaves(query) == [name]
    (source,) = query.sources.values()
    assert isinstance(source, FileSource)
    assert (source.name, source.known) == (name, known)
    assert source.path == str(tmp_path / "kept")
    # It is over, nothing of it is late, and it is not kept once more.
    assert source.ends
    assert source.promise.delay is None
    assert source.archive is None


def test_what_is_known_meets_what_was_known(engine: ab.Engine) -> None:
    query = engine.sql("""
        SELECT o.symbol FROM Quote FOR KNOWN AS OF 0 WINDOW(RANGE 5 MINUTES) o
        JOIN Quote WINDOW(RANGE 5 MINUTES) n ON o.symbol = n.symbol WHERE o.price <> n.price
    """)
    assert leaves(query) == ["Quote@known=0", "Quote"]
    assert [source.known for source in query.sources.values()] == [KnowledgePoint(revision=0), None]


def test_a_version_of_what_was_known_is_found_by_time(engine: ab.Engine) -> None:
    query = engine.sql("""
        SELECT n.symbol FROM Quote n JOIN Quote FOR KNOWN AS OF 2 FOR SYSTEM_TIME AS OF n.at o
        ON n.symbol = o.symbol
    """)
    assert leaves(query) == ["Quote", "Quote@known=2"]


def test_time_of_what_was_known_orders_it(engine: ab.Engine) -> None:
    query = engine.sql("""
        SELECT n.symbol, o.price FROM Quote n ASOF JOIN Quote FOR KNOWN AS OF 2 o
        ON n.symbol = o.symbol AND n.at >= o.at
    """)
    assert leaves(query) == ["Quote", "Quote@known=2"]


def test_edges_are_those_of_what_was_known(engine: ab.Engine) -> None:
    assert leaves(engine.sql("SELECT symbol FROM Edges FOR KNOWN AS OF 1")) == ["Edges@known=1"]


def test_a_view_may_be_over_what_was_known(engine: ab.Engine) -> None:
    engine.sql("CREATE VIEW Earlier AS SELECT symbol FROM Quote FOR KNOWN AS OF 1")
    query = engine.sql("SELECT symbol FROM Earlier")
    assert [source.known for source in query.sources.values()] == [KnowledgePoint(revision=1)]
    with pytest.raises(ab.QueryError, match="is used by Dear, Earlier"):
        engine.sql("DROP STREAM Quote")


@pytest.mark.parametrize(
    ("stream", "what", "hint"),
    [
        ("Plain", "its rows are kept nowhere", "ARCHIVE 'archive/plain'"),
        ("Own", "in the checkpoint of each query", "ARCHIVE 'archive/own'"),
        ("Dear", "it is a view", "after the streams"),
        ("Known", "it is a table", "after the streams"),
    ],
)
def test_only_what_has_an_archive_was_known(
    engine: ab.Engine, stream: str, what: str, hint: str
) -> None:
    with pytest.raises(ab.QueryError, match=what) as raised:
        engine.sql(f"SELECT symbol FROM {stream} FOR KNOWN AS OF 1")
    assert raised.value.where
    assert hint in raised.value.hint


@pytest.mark.parametrize("instant", ["soon", "forever", "5", "-5", ""])
def test_an_instant_is_a_timestamp(engine: ab.Engine, instant: str) -> None:
    with pytest.raises(ab.QueryError, match="is not a timestamp") as raised:
        engine.sql(f"SELECT symbol FROM Quote FOR KNOWN AS OF TIMESTAMP '{instant}'")
    assert "FOR KNOWN AS OF TIMESTAMP" in raised.value.hint


def test_explain_tells_what_was_known(engine: ab.Engine, tmp_path: Path) -> None:
    notes = engine.sql("SELECT symbol FROM Quote FOR KNOWN AS OF 3").explain_json()["notes"]
    assert f"source 'Quote@known=3': read from {tmp_path / 'kept'}, as known after revision 3" in (
        notes
    )


def test_archives_are_shown_and_described(engine: ab.Engine, tmp_path: Path) -> None:
    shown = engine.sql("SHOW STREAMS").to_pylist()
    kept = f"{tmp_path / 'kept'}, keeps 30d; late rows revise results"
    assert {each["name"]: each["archive"] for each in shown} == {
        "Quote": kept,
        "Edges": f"{tmp_path / 'edges'}, keeps everything",
        "Own": "in the checkpoint, keeps everything; late rows revise results",
        "Plain": "",
    }
    assert engine.sql("DESCRIBE Quote").to_pylist()[-1] == {
        "column": "(archive)",
        "type": "",
        "remark": kept,
    }
    assert "archive" not in engine.sql("SHOW TABLES").column_names
