from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.engine import Engine, Stream
from anabranch.errors import PlanError, QueryError, StreamError
from anabranch.model.files.stream_file import read_batches
from anabranch.model.time import FOREVER

BIDS = """{"insert": {"item": 1, "price": 80.0}, "start": 5, "end": 9}
{"insert": {"item": 2, "price": 50.0}, "start": 6, "end": 12}
{"stable": 6}
{"adjust": {"item": 1, "price": 80.0}, "start": 5, "end": 9, "new_end": 7}
{"insert": {"item": 1, "price": 90.0}, "start": 8, "end": 11}
{"insert": {"item": 1, "price": 10.0}, "start": 2, "end": 11}
{"stable": 12}
"""


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def bids(engine: Engine, tmp_path: Path) -> Stream:
    (tmp_path / "bids.jsonl").write_text(BIDS)
    return engine.stream(tmp_path / "bids.jsonl", max_rows_per_batch=3)


def test_a_query_runs_without_spark(bids: Stream) -> None:
    run = bids.group_by("item").agg(top="MAX(price)", n="COUNT(*)").run_local()
    assert run.snapshot(6).to_pylist() == [
        {"item": 1, "top": 80.0, "n": 1},
        {"item": 2, "top": 50.0, "n": 1},
    ]
    assert run.snapshot(8).to_pylist()[0] == {"item": 1, "top": 90.0, "n": 1}
    assert run.stable == 12
    assert [batch["late"] for batch in run.metrics()] == [0, 1, 0]


def test_final_emission_never_takes_back(bids: Stream) -> None:
    table = bids.agg(n="COUNT(*)").run_local(emit="final").table()
    assert "adjust" not in table.column("kind").to_pylist()


def test_local_results_can_go_to_files(bids: Stream, tmp_path: Path) -> None:
    query = bids.where("price > 20").select("item", "price * 2 AS double")
    query.run_local(tmp_path / "out.jsonl")
    batches = list(read_batches(tmp_path / "out.jsonl"))
    assert sum(map(len, batches)) == 4
    assert batches[-1].stable == 12
    query.run_local(tmp_path / "log")
    again = Engine().stream(tmp_path / "log").run_local()
    assert again.stable == 12
    assert again.snapshot(8).num_rows == 2


def test_streams_are_put_together(engine: Engine, bids: Stream, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text('{"insert": {"item": 7, "price": 1.0}, "start": 6}\n')
    more = engine.stream(tmp_path / "more.jsonl", ends=True)
    run = bids.union(more).agg(n="COUNT(*)").run_local()
    assert run.snapshot(6).to_pylist() == [{"n": 3}]
    assert run.stable == 12
    with pytest.raises(PlanError, match="two different sources"):
        bids.union(Engine().stream(tmp_path / "bids.jsonl"))


def test_an_ended_stream_is_stable_for_ever(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1, 1], "t": [3, 4]}), tmp_path / "rows.parquet")
    stream = Engine().stream(tmp_path / "rows.parquet", start="t", ends=True)
    run = stream.window(10).group_by("k").agg(n="COUNT(*)").coalesce().run_local()
    assert run.stable == FOREVER
    assert run.snapshot(4).to_pylist() == [{"k": 1, "n": 2}]


def test_explain_shows_the_plan_and_its_stages(bids: Stream) -> None:
    text = bids.window(5).group_by("item").agg(n="COUNT(*)").agg(items="COUNT(*)").explain()
    assert text.splitlines()[:5] == [
        "Query",
        "  Aggregate count(*) AS items",
        "    Aggregate count(*) AS n by item",
        "      TimeWindow 5",
        "        Source bids",
    ]
    assert "drop_unused_aggregates" in text
    assert "  Aggregate count(*) AS items  [at most one row at a time]" in text
    assert "Stage 1-aggregate (one shard)\n  reads stage:0-aggregate" in text


def test_a_window_without_bound_needs_permission(bids: Stream) -> None:
    query = bids.window("unbounded").agg(n="COUNT(*)")
    with pytest.raises(PlanError, match="unbounded window") as raised:
        query.run_local()
    assert "allow_unbounded" in raised.value.hint
    assert query.run_local(allow_unbounded=True).stable == 12
    assert bids.window("unbounded").run_local().stable == 12


@pytest.mark.parametrize(
    ("make", "kind", "what"),
    [
        (lambda s: s.where("prize > 3"), QueryError, "no column 'prize'"),
        (lambda s: s.select("price * 2"), QueryError, "has no name"),
        (lambda s: s.select("price +"), QueryError, "price"),
        (lambda s: s.agg(n="COUNT("), QueryError, "cannot read"),
        (lambda s: s.agg(n="price"), QueryError, "not an aggregate"),
        (lambda s: s.agg(n="VAR_POP(DISTINCT price)"), PlanError, "DISTINCT"),
        (lambda s: s.agg(), PlanError, "needs an aggregate"),
        (lambda s: s.window("10 parsecs"), QueryError, "not a duration"),
        (lambda s: s.union(s.select("item")), PlanError, "columns that differ"),
        (lambda s: Engine().stream("nowhere/x.parquet", start="t"), StreamError, "no such file"),
        (lambda s: Engine().stream(42), PlanError, "cannot be read from int"),
        (lambda s: Engine(shards=0), PlanError, "shards"),
        (lambda s: Engine(versions=1), PlanError, "versions must be a whole number from 2"),
        (lambda s: Engine().start_all([], "out"), PlanError, "0 queries for 0 outputs"),
        (lambda s: Engine().start_all([s, s], ["-"]), PlanError, "2 queries for 1 outputs"),
    ],
)
def test_wrong_queries_are_refused(
    bids: Stream, make: object, kind: type[Exception], what: str
) -> None:
    assert callable(make)
    with pytest.raises(kind, match=what):
        make(bids)


def test_streams_without_a_name_get_one_each(engine: Engine, bids: Stream, tmp_path: Path) -> None:
    again = engine.stream(tmp_path / "*.jsonl")
    third = engine.stream(tmp_path / "bids.jsonl")
    names = [name for stream in (bids, again, third) for name in stream.sources]
    assert len(set(names)) == 3


def test_what_an_engine_offers_is_for_users() -> None:
    """Every public name is on a page; what streams and runs need of each other is in the host."""
    root = Path(__file__).parents[2]
    pages = "\n".join(
        path.read_text(encoding="utf-8")
        for path in [root / "README.md", *root.glob("docs/**/*.md")]
    )
    names = [name for name in dir(Engine) if not name.startswith("_")]
    assert [name for name in names if f"ngine.{name}" not in pages] == []
