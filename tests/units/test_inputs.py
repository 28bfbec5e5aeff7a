"""Streams that meet count time alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from anabranch import AnabranchError, Engine, Stream
from anabranch.algebra.node import clock_of
from anabranch.model.clock import Clock
from anabranch.model.identity import signature
from anabranch.optimizer.driver import optimize
from tests.units.streams import COARSE, INTEGERS, KINDS, SECONDS, TIMESTAMPS, Kind

TOGETHER: Final[dict[str, Callable[[Stream, Stream], Stream]]] = {
    "join": lambda a, b: a.select("k AS a").join(b, "a = k"),
    "semi join": lambda a, b: a.select("k AS a").join(b, "a = k", how="semi"),
    "union": lambda a, b: a.union(b),
    "difference": lambda a, b: a.difference(b),
    "intersection": lambda a, b: a.intersection(b),
    "max-union": lambda a, b: a.max_union(b),
    "merge": lambda a, b: a.merge(b),
}
QUERIES: Final = {
    "join": "SELECT A.k FROM A, B WHERE A.k = B.k",
    "join with a window": "SELECT A.k FROM A WINDOW(RANGE 3 {unit}) JOIN B ON A.k = B.k",
    "exists": "SELECT k FROM A WHERE EXISTS (SELECT 1 FROM B WHERE B.k = A.k)",
    "union": "SELECT k FROM A UNION ALL SELECT k FROM B",
    "except": "SELECT k FROM A EXCEPT ALL SELECT k FROM B",
    "merge": "SELECT k FROM MERGE(A, B)",
}
MINUTES: Final = Kind("minutes", "INT", "1 MINUTE")
DAYS: Final = Kind("days", "TIMESTAMP", "1 DAY")
PAIRS: Final = (
    (SECONDS, MINUTES, "different chronons"),
    (SECONDS, INTEGERS, "different chronons"),
    (COARSE, DAYS, "different chronons"),
    (COARSE, TIMESTAMPS, "different chronons"),
    (SECONDS, COARSE, "timestamps and streams of whole numbers"),
    (INTEGERS, TIMESTAMPS, "timestamps and streams of whole numbers"),
)


@pytest.mark.parametrize(("one", "other", "said"), PAIRS)
def test_python_refuses_different_chronons(
    one: Kind, other: Kind, said: str, tmp_path: Path
) -> None:
    streams = [kind.stream(kind.write(tmp_path)).select("k") for kind in (one, other)]
    for together in TOGETHER.values():
        for pair in (streams, streams[::-1]):
            with pytest.raises(AnabranchError, match=said) as refused:
                together(*pair)
            assert refused.value.hint


@pytest.mark.parametrize(("one", "other", "said"), PAIRS)
def test_sql_refuses_different_chronons(one: Kind, other: Kind, said: str, tmp_path: Path) -> None:
    engine = Engine()
    engine.sql(one.create(one.write(tmp_path), "A") + other.create(other.write(tmp_path), "B"))
    unit = "" if one is INTEGERS else "SECONDS"
    for query in QUERIES.values():
        with pytest.raises(AnabranchError, match=said) as refused:
            engine.sql(query.format(unit=unit))
        assert refused.value.hint


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_clock_goes_through_every_plan(kind: Kind, tmp_path: Path) -> None:
    engine, path = Engine(), kind.write(tmp_path)
    engine.sql(kind.create(path, "A") + kind.create(path, "B"))
    chronon = 1_000_000 if kind.chronon else 1 if kind.timestamps else None
    unit = "" if kind is INTEGERS else "SECONDS"
    for query in QUERIES.values():
        plan = engine.sql(query.format(unit=unit)).node
        assert clock_of(plan) == Clock(chronon, kind.timestamps)
        assert clock_of(optimize(plan).node) == clock_of(plan)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_table_that_holds_always_goes_with_every_stream(kind: Kind, tmp_path: Path) -> None:
    engine, path = Engine(), kind.write(tmp_path)
    engine.sql(kind.create(path, "A"))
    (tmp_path / "t.json").write_text('{"k": 1, "name": "one"}\n')
    engine.sql(f"CREATE TABLE T (k INT, name STRING) SOURCE '{tmp_path / 't.json'}'")
    unit = "" if kind is INTEGERS else "SECONDS"
    query = f"SELECT name FROM T JOIN A WINDOW(RANGE 3 {unit}) ON T.k = A.k"
    assert clock_of(engine.sql(query).node) == clock_of(engine.sql("SELECT k FROM A").node)


def test_a_table_with_periods_counts_like_the_stream(tmp_path: Path) -> None:
    engine, path = Engine(), SECONDS.write(tmp_path)
    engine.sql(SECONDS.create(path, "A"))
    (tmp_path / "t.json").write_text('{"k": 1, "since": 0, "until": 3}\n')
    table = (
        "CREATE OR REPLACE TABLE T (k INT, since INT, until INT) "
        f"SOURCE '{tmp_path / 't.json'}' ORDERED BY since UNTIL until"
    )
    query = "SELECT A.k FROM A JOIN T ON T.k = A.k"
    engine.sql(table)
    with pytest.raises(AnabranchError, match="different chronons"):
        engine.sql(query)
    engine.sql(f"{table} CHRONON 1 SECOND")
    assert engine.sql(query).run_local().snapshot(1).num_rows == 1


def test_a_table_without_periods_has_no_chronon(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"k": 1}\n')
    with pytest.raises(AnabranchError, match="has no meaning for a table without times"):
        Engine().sql(f"CREATE TABLE T (k INT) SOURCE '{tmp_path / 't.json'}' CHRONON 1 SECOND")
    with pytest.raises(AnabranchError, match="always hold"):
        Engine().relation(str(tmp_path / "t.json"), chronon="1 second")


@pytest.mark.parametrize("again", ["DROP STREAM S; CREATE", "CREATE OR REPLACE"])
def test_a_chronon_ends_with_its_stream(again: str, tmp_path: Path) -> None:
    engine, path = Engine(), SECONDS.write(tmp_path)
    engine.sql(SECONDS.create(path))
    assert engine.sql("SELECT k FROM S WINDOW(RANGE 1 MINUTE)").node.input.size == 60
    without = INTEGERS.create(path).removeprefix("CREATE")
    engine.sql(f"{again}{without}")
    with pytest.raises(AnabranchError, match="the length of a chronon"):
        engine.sql("SELECT k FROM S WINDOW(RANGE 1 MINUTE)")


def test_a_checkpoint_knows_another_chronon(tmp_path: Path) -> None:
    texts = {signature(kind.stream(kind.write(tmp_path), name="S").node) for kind in KINDS}
    assert len(texts) == 4
    assert "chronon" not in signature(INTEGERS.stream(INTEGERS.write(tmp_path)).node)


def test_explain_shows_a_chronon_that_is_not_the_usual_one(tmp_path: Path) -> None:
    shown = {
        kind.name: kind.stream(kind.write(tmp_path)).window("forever").explain() for kind in KINDS
    }
    assert {name for name, text in shown.items() if "chronon 1 second" in text} == {
        "seconds",
        "coarse",
    }
