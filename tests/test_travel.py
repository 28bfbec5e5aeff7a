"""Answers about another time: for a stretch of it alone, or as they were known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.runtime.sources.spec import FileSource, KnowledgePoint
from anabranch.travel import knowledge_point

QUERIES = {
    "filter": "SELECT k, n FROM S WHERE n > 1",
    "sliding": "SELECT k, SUM(n) AS s FROM S WINDOW(RANGE 7 SLIDE 3) GROUP BY k",
    "tumbling": "SELECT COUNT(*) AS c, MAX(n) AS m FROM S WINDOW(RANGE 5 SLIDE 5)",
    "join": "SELECT a.k, a.n, b.n AS m FROM S WINDOW(RANGE 4) a JOIN T WINDOW(RANGE 6) b "
    "ON a.k = b.k",
    "sessions": "SELECT k, COUNT(*) AS c FROM SESSION(S PARTITION BY k, DESCRIPTOR(t), 4) "
    "GROUP BY k",
    "count": "SELECT k, SUM(n) AS s FROM S WINDOW(PARTITION BY k ROWS 2) GROUP BY k",
    "distinct": "SELECT DISTINCT n FROM S WINDOW(RANGE 9)",
}
LAST = 60

rows = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 40)),
    min_size=1,
    max_size=12,
    unique_by=lambda row: row[2],
)


@contextmanager
def files(**streams: list[tuple[str, int, int]]) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        for name, found in streams.items():
            lines = (json.dumps({"k": k, "n": n, "t": t}) for k, n, t in found)
            (Path(folder) / f"{name}.json").write_text("\n".join(lines) + "\n")
        yield Path(folder)


def declared(folder: Path, late: str) -> ab.Engine:
    engine = ab.Engine()
    for name in "ST":
        engine.sql(
            f"CREATE STREAM {name} (k TEXT, n BIGINT, t BIGINT) SOURCE '{folder / name}.json' "
            f"ORDERED BY t DELAY 3 LATE {late}"
        )
    return engine


def shown(run: Any, at: int) -> list[Any]:
    return sorted(tuple(row.values()) for row in run.snapshot(at).to_pylist())


@pytest.mark.parametrize("late", ["DROP", "REVISE"])
@pytest.mark.parametrize("name", QUERIES)
@given(s=rows, t=rows, ends=st.tuples(st.integers(0, LAST), st.integers(1, 20)))
def test_a_stretch_has_the_answers_of_the_whole(
    name: str, late: str, s: list[Any], t: list[Any], ends: tuple[int, int]
) -> None:
    first, last = ends[0], sum(ends)
    with files(S=s, T=t) as folder:
        query = declared(folder, late).sql(QUERIES[name])
        whole = query.run_local("memory", allow_unbounded=True)
        part = query.backfill(first, last, "memory")
    for at in range(first, last):
        assert shown(part, at) == shown(whole, at), at
    assert not shown(part, first - 1)
    assert not shown(part, last)
    assert part.stable == ab.FOREVER


def test_only_what_answers_need_is_read() -> None:
    with files(S=[("a", 1, at) for at in range(1000)], T=[]) as folder:
        query = declared(folder, "REVISE").sql(QUERIES["tumbling"])
        run = query.backfill(500, 510, "memory")
        assert sum(batch["rows_in"] for batch in run.metrics()) <= 20
        # Where promises decide which rows count, all of them are read.
        query = declared(folder, "DROP").sql(QUERIES["tumbling"])
        run = query.backfill(500, 510, "memory")
        assert sum(batch["rows_in"] for batch in run.metrics()) == 1000


def test_a_backfill_writes_no_archive_of_its_own(tmp_path: Path) -> None:
    with files(S=[("a", 1, 1)]) as folder:
        engine = ab.Engine()
        engine.sql(
            f"CREATE STREAM S (k TEXT, n BIGINT, t BIGINT) SOURCE '{folder}/S.json' ORDERED BY t "
            f"DELAY 3 LATE REVISE ARCHIVE '{tmp_path / 'kept'}'"
        )
        source = engine.sql("SELECT k FROM S").between(0, 5).sources["S@0..5"]
        assert isinstance(source, FileSource)
        assert (source.archive, source.ends, source.within) == (None, True, (0, 5))
        # Nothing is archived yet, so the files are read.
        assert source.form == "json"


def test_rows_with_the_time_of_their_arrival_cannot_be_read_again() -> None:
    with files(S=[("a", 1, 1)]) as folder:
        engine = ab.Engine()
        stream = engine.stream(str(folder / "S.json"), start=ab.ARRIVAL, name="S")
        with pytest.raises(ab.PlanError, match="time of their arrival"):
            stream.backfill(0, 5)


def test_there_are_instants_in_a_stretch() -> None:
    with files(S=[("a", 1, 1)], T=[]) as folder:
        query = declared(folder, "DROP").sql("SELECT k FROM S")
        with pytest.raises(ab.PlanError, match="there is no instant between 5 and 5"):
            query.between(5, 5)
        with pytest.raises(ab.PlanError, match="soon"):
            query.between("soon", 5)


def test_a_snapshot_is_asked_for_directly() -> None:
    with files(S=[("a", 1, 1), ("b", 2, 2)], T=[]) as folder:
        engine = declared(folder, "REVISE")
        table = engine.as_of(at=2).sql("SELECT k, n FROM S WINDOW(RANGE 5)")
        assert table.to_pylist() == [{"k": "a", "n": 1}, {"k": "b", "n": 2}]
        assert engine.as_of(at=2).stream("S").to_pylist() == [{"k": "b", "n": 2}]
        assert engine.sql("SELECT n FROM S").snapshot(1).to_pylist() == [{"n": 1}]


def test_a_view_is_known_as_its_streams_are(tmp_path: Path) -> None:
    with files(S=[("a", 1, 1)], R=[("a", 1, 1)]) as folder:
        engine = ab.Engine()
        engine.sql(f"""
            CREATE STREAM S (k TEXT, n BIGINT, t BIGINT) SOURCE '{folder}/S.json' ORDERED BY t
              ARCHIVE '{tmp_path / "kept"}';
            CREATE TABLE R (k TEXT, n BIGINT) SOURCE '{folder}/R.json';
            CREATE VIEW V AS SELECT S.k, R.n FROM S JOIN R ON S.k = R.k;
        """)
        query = engine.as_of(known=2).stream("V")
        assert {name: source.known for name, source in query.sources.items()} == {
            "S@known=2": KnowledgePoint(revision=2),
            "R": None,
        }
        with pytest.raises(ab.PlanError, match="does not exist yet"):
            query.run_local("memory")
        # What the query says itself goes before.
        query = engine.as_of(known=2).sql("SELECT k FROM S FOR KNOWN AS OF 1")
        assert list(query.sources) == ["S@known=1"]


def test_only_queries_are_asked_as_of_another_time() -> None:
    with files(S=[("a", 1, 1)], T=[]) as folder:
        engine = declared(folder, "REVISE")
        for text in ("DROP STREAM S", "SELECT k FROM S; SELECT k FROM T"):
            with pytest.raises(ab.PlanError, match="one query can be asked"):
                engine.as_of(at=1).sql(text)
        with pytest.raises(ab.PlanError, match="'S' has no archive to look into"):
            engine.as_of(known=1).sql("SELECT k FROM S")


@pytest.mark.parametrize("known", [-1, True, 1.5, "3", "soon", "forever"])
def test_known_is_a_number_or_a_timestamp(known: Any) -> None:
    with pytest.raises(ab.PlanError, match="number of a revision or a timestamp"):
        knowledge_point(known)
