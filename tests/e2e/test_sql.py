"""SQL on Spark: files, tables of Spark, Delta tables, functions that Spark alone has."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from anabranch.engine import Engine, Stream
from anabranch.errors import PlanError, QueryError
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER
from anabranch.runtime.sources.files.log_folder import LogFolder

pytestmark = pytest.mark.spark

STREAM = """
CREATE OR REPLACE STREAM Bid (item INT, price DOUBLE, bidder STRING, at BIGINT)
SOURCE spark('parquet', '{folder}') ORDERED BY at DELAY 2;
"""
TABLE = """
CREATE OR REPLACE TABLE Item (item INT, price DOUBLE, bidder STRING)
SOURCE spark('parquet', '{folder}');
"""


@pytest.fixture
def bids(tmp_path: Path) -> Path:
    folder = tmp_path / "bids"
    folder.mkdir()
    for number in range(3):
        rows = {
            "item": pa.array([1, 2, 3], pa.int32()),
            "price": [10.0 * number + 1, 10.0 * number + 2, 3.0],
            "bidder": ["Ann", "Bob", None],
            "at": [10 * number, 10 * number + 1, 10 * number + 2],
        }
        pq.write_table(pa.table(rows), folder / f"{number}.parquet")
    return folder


def test_spark_filters_and_what_it_leaves_out_tells_the_time(engine: Engine, bids: Path) -> None:
    engine.sql(STREAM.format(folder=bids))
    query = engine.sql("SELECT price FROM Bid WHERE item = 1")
    text = query.explain()
    assert "Filter" not in text.split("Stage 0")[1].split("Spark, source")[0]
    assert "item" in text.split("Spark, source")[1]
    with query.start("memory", available_now=True) as run:
        run.await_end()
        # The last row of all is left out, at 22, and says that nothing comes before 20 any more.
        assert run.stable == 20
        prices = [row["price"] for row in run.table().to_pylist() if row["kind"] == "insert"]
        assert sorted(prices) == [1.0, 11.0, 21.0]
        assert sum(batch["rows_in"] for batch in run.metrics()) == 9


def test_filters_and_projections_reach_the_files_of_a_table(engine: Engine, bids: Path) -> None:
    engine.sql(TABLE.format(folder=bids))
    text = engine.sql("SELECT price FROM Item WHERE item = 1").explain()
    assert "PushedFilters: [IsNotNull(item), EqualTo(item,1)]" in text
    assert "ReadSchema: struct<item:int,price:double>" in text


def test_functions_that_spark_alone_has_run_in_spark(engine: Engine, bids: Path) -> None:
    engine.sql(STREAM.format(folder=bids))
    query = engine.sql("SELECT soundex(bidder) AS sound FROM Bid WHERE soundex(bidder) = 'B100'")
    with query.start("memory", available_now=True) as run:
        run.await_end()
        rows = [row["sound"] for row in run.table().to_pylist() if row["kind"] == "insert"]
        assert rows == ["B100"] * 3
    late = engine.sql(
        "SELECT soundex(m) AS s "
        "FROM (SELECT MAX(bidder) AS m FROM Bid WINDOW(RANGE 5) GROUP BY item)"
    )
    with pytest.raises(PlanError, match="Spark only"):
        late.start("memory")
    with pytest.raises(QueryError, match="no function 'soundexx'"):
        engine.sql("SELECT soundexx(bidder) FROM Bid")


def test_a_delta_table_is_a_relation(engine: Engine, bids: Path, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "names", pa.table({"id": [1, 2], "label": ["one", "two"]}))
    write_deltalake(tmp_path / "names", pa.table({"id": [3], "label": ["three"]}), mode="append")
    engine.sql(
        f"""
        CREATE OR REPLACE TABLE Names SOURCE delta('{tmp_path / "names"}');
        CREATE OR REPLACE STREAM Files (item INT, price DOUBLE, at BIGINT)
        SOURCE '{bids}/*.parquet' ORDERED BY at WITH (ends = TRUE);
        """
    )
    query = engine.sql("SELECT label, price FROM Files JOIN Names ON item = id WHERE price > 20")
    expected = {("one", 21.0), ("two", 22.0)}
    assert {(r["label"], r["price"]) for r in _inserts(query.run_local().table())} == expected
    with query.start("memory", available_now=True) as run:
        run.await_end()
        assert {(r["label"], r["price"]) for r in _inserts(run.table())} == expected
        assert run.stable == FOREVER


def test_a_table_that_spark_knows_and_a_function_that_connects(engine: Engine, bids: Path) -> None:
    engine.spark.read.parquet(str(bids)).createOrReplaceTempView("bids_view")
    engine.register_source("connect", lambda name: engine.spark.table(name))
    engine.sql("CREATE OR REPLACE TABLE Known SOURCE table('bids_view')")
    engine.sql("CREATE OR REPLACE STREAM Connected SOURCE connect('bids_view') ORDERED BY at")
    query = engine.sql(
        "SELECT c.item FROM Connected c JOIN Known k ON c.item = k.item AND k.at = 0"
    )
    with query.start("memory", available_now=True) as run:
        run.await_end()
        assert [row["item"] for row in _inserts(run.table())] == [1, 1, 1]


def test_a_running_query_holds_on_to_its_streams(engine: Engine, bids: Path) -> None:
    engine.sql(STREAM.format(folder=bids))
    query = engine.sql("SELECT item FROM Bid")
    with query.start("memory") as run:
        names = engine.sql("SHOW QUERIES").to_pylist()
        assert {"name": run.name, "status": "running", "columns": "item"} in names
        with pytest.raises(QueryError, match=f"used by the running query {run.name}"):
            engine.sql("DROP STREAM Bid")
    engine.sql("DROP STREAM Bid")
    with pytest.raises(QueryError, match="unknown stream 'Bid'"):
        engine.sql("SELECT item FROM Bid")


def _inserts(table: pa.Table) -> list[dict[str, object]]:
    return [row for row in table.to_pylist() if row["kind"] == "insert"]


def test_queries_of_one_script_share_what_they_have_in_common(
    engine: Engine, bids: Path, tmp_path: Path
) -> None:
    queries = engine.script(
        f"""
        CREATE OR REPLACE STREAM Files (item INT, price DOUBLE, at BIGINT)
        SOURCE '{bids}/*.parquet' ORDERED BY at WITH (ends = TRUE);
        CREATE OR REPLACE STREAM Best AS
          SELECT item, MAX(price) AS best FROM Files WINDOW(RANGE 15) GROUP BY item;
        SELECT item FROM Best WHERE best > 10;
        SELECT COUNT(*) AS n FROM Best;
        """
    )
    runs = engine.start_all(queries, tmp_path / "out", available_now=True)
    for query, run in zip(queries, runs, strict=True):
        run.await_end()
        found = LogicalStream.of_batches(run._sink.batches())
        assert found == LogicalStream.of_batches(query.run_local()._sink.batches())
        assert LogicalStream.of_batches(LogFolder(f"{tmp_path}/out/{run.name}").read()) == found
        # One query of Spark, in which the groups are kept once.
        kept = [name for name in run.metrics()[0]["stages"] if "aggregate" in name]
        assert len(kept) == 2
    assert runs[0]._query is runs[1]._query
    assert engine.explain_all(queries).count("gives query_") == 2


def test_a_query_over_a_derived_stream_reads_what_that_one_writes(
    engine: Engine, bids: Path, tmp_path: Path
) -> None:
    derived = engine.sql(
        f"""
        CREATE OR REPLACE STREAM Files (item INT, price DOUBLE, at BIGINT)
        SOURCE '{bids}/*.parquet' ORDERED BY at WITH (ends = TRUE);
        CREATE OR REPLACE STREAM Dear AS
          SELECT item, SUM(price) AS sum FROM Files WINDOW(RANGE 12) GROUP BY item;
        """
    )
    query = engine.sql("SELECT MAX(sum) AS most FROM Dear")
    with derived.start(tmp_path / "dear") as below, query.start("memory") as above:
        below.drain()
        above.drain()
        assert "results of Dear" in str([batch["sources"] for batch in above.metrics()])
        found = LogicalStream.of_batches(above._sink.batches())
        assert found == LogicalStream.of_batches(query.run_local()._sink.batches())
        assert above.stable == below.stable == FOREVER
        with pytest.raises(PlanError, match=f"read the results of 'Dear': {above.name}"):
            below.stop()
        assert below.status == "running"
        above.stop()
        below.stop()
        assert below.status == "ended"


def test_a_query_that_comes_later_leaves_the_others_alone(
    engine: Engine, bids: Path, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()

    def rows(name: str, at: list[int]) -> None:
        pq.write_table(pa.table({"item": [1, 2, 1], "at": at}), files / f"{name}.parquet")

    def counts(*more: int) -> list[Stream]:
        source = engine.stream(files, name="later", start="at", delay=0)
        windows = [source.window(size).group_by("item") for size in (50, *more)]
        return [each.agg(n="COUNT(*)") for each in windows]

    def log(number: int) -> LogicalStream:
        return LogicalStream.of_batches(LogFolder(f"{tmp_path}/out/{number}").read())

    def start(queries: list[Stream], changed: bool = False) -> None:
        to = [tmp_path / "out" / str(number) for number in range(len(queries))]
        place = tmp_path / "state"
        runs = engine.start_all(queries, to, checkpoint=place, changed=changed, available_now=True)
        for run in runs:
            run.await_end()

    rows("0", [1, 2, 3])
    start(counts())
    rows("1", [11, 12, 13])
    with pytest.raises(PlanError, match="belongs to another query"):
        start(counts(5))
    start(counts(5), changed=True)
    rows("2", [21, 22, 23])
    start(counts(5))
    whole = engine.stream(files, name="whole", start="at", delay=0)
    expected = whole.window(50).group_by("item").agg(n="COUNT(*)").run_local()
    assert log(0) == LogicalStream.of_batches(expected._sink.batches())
    (files / "0.parquet").unlink()
    rest = engine.stream(files, name="rest", start="at", delay=0)
    expected = rest.window(5).group_by("item").agg(n="COUNT(*)").run_local()
    assert log(1) == LogicalStream.of_batches(expected._sink.batches())


@pytest.mark.parametrize("join", ["ASOF JOIN", "ASOF LEFT JOIN"])
def test_rows_meet_the_version_that_duckdb_finds(engine: Engine, tmp_path: Path, join: str) -> None:
    random = np.random.default_rng(5)
    tables = {}
    for name, value, rows in (("trade", "size", 600), ("quote", "price", 300)):
        keys = random.integers(0, 7, rows)
        # No two quotes of a key at one instant: DuckDB would take any of them.
        at = random.choice(2_000, rows, replace=False)
        table = pa.table({"sym": keys, value: random.integers(0, 99, rows), "at": at})
        folder = tmp_path / name
        folder.mkdir()
        for part in range(3):
            pq.write_table(table.slice(part * rows // 3, rows // 3), folder / f"{part}.parquet")
        engine.sql(
            f"CREATE OR REPLACE STREAM {name} (sym BIGINT, {value} BIGINT, at BIGINT) "
            f"SOURCE '{folder}' ORDERED BY at KEEP DELAY 2000 "
            "WITH (ends = TRUE, max_files_per_batch = 1)"
        )
        tables[name] = table
    sql = (
        f"SELECT t.at AS at, t.size AS size, q.price AS price FROM trade t {join} quote q "
        "ON t.sym = q.sym AND t.at >= q.at"
    )
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        expected = sorted(connection.execute(sql).fetchall(), key=str)
    with engine.sql(sql).start(str(tmp_path / "out"), available_now=True) as run:
        run.await_end()
        found = LogFolder(f"{tmp_path}/out").read()
        events = LogicalStream.of_batches(found).events()
    assert sorted((payload for payload, _, _ in events), key=str) == expected
    assert all(payload[0] == start and end == start + 1 for payload, start, end in events)
