"""Joins and relations on Spark agree with the local runner and with a hand-made answer."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch import Engine, LogicalStream, Stream, write_stream
from anabranch.algebra.join import JoinKind
from anabranch.errors import PlanError
from anabranch.runtime.query.run import Run
from anabranch.testing import PhysicalStream, adjust, insert, stable
from anabranch.testing.physical import Element

pytestmark = pytest.mark.spark

BIDS = pa.schema([("item", pa.int64()), ("price", pa.float64())])
ITEMS = pa.schema([("id", pa.int64()), ("category", pa.string())])


def write(path: Path, schema: pa.Schema, *elements: Element) -> None:
    path.parent.mkdir(exist_ok=True)
    stream = PhysicalStream(schema, tuple(elements))
    write_stream(path, stream.batches())


@pytest.fixture
def feeds(engine: Engine, tmp_path: Path) -> tuple[Stream, Stream, Path]:
    for number in range(3):
        base = number * 10
        write(
            tmp_path / f"bids/{number}.jsonl",
            BIDS,
            *(insert(key, 5.0 * key, start=base + key, end=base + key + 8) for key in range(6)),
            stable(base + 6),
        )
        write(
            tmp_path / f"items/{number}.jsonl",
            ITEMS,
            *(insert(key, "ab"[key % 2], start=base + 2, end=base + 11) for key in (1, 3, number)),
            *([adjust(1, "b", start=2, end=11, new_end=15)] if number == 1 else []),
            stable(base + 9),
        )
    bids = engine.stream(tmp_path / "bids", name="bids", max_files_per_batch=1)
    items = engine.stream(tmp_path / "items", name="items", max_files_per_batch=1)
    return bids, items, tmp_path


def meaning(run: Run) -> LogicalStream:
    run.await_end()
    return LogicalStream.of_batches(run._sink.batches())


def local(query: Stream) -> LogicalStream:
    return LogicalStream.of_batches(query.run_local()._sink.batches())


@pytest.mark.parametrize("how", ["inner", "full", "anti"])
def test_a_join_of_two_streams(feeds: tuple[Stream, Stream, Path], how: JoinKind) -> None:
    bids, items, _ = feeds
    query = bids.join(items, on="item = id", how=how)
    assert "hash on item = id" in query.explain()
    found = meaning(query.start(available_now=True))
    assert found.steps
    assert found == local(query)


def test_what_has_no_key_goes_to_all_shards(feeds: tuple[Stream, Stream, Path]) -> None:
    bids, items, _ = feeds
    query = bids.join(items, on="item < id").group_by("category").agg(n="COUNT(*)")
    assert "to all shards" in query.explain()
    assert meaning(query.start(available_now=True)) == local(query)


def test_a_stream_meets_relations(engine: Engine, feeds: tuple[Stream, Stream, Path]) -> None:
    bids, _, folder = feeds
    names = pa.table({"item": [1, 2, 3], "name": ["one", "two", "three"]})
    pq.write_table(names, folder / "names.parquet")
    prices = pa.table({"item": [2, 2], "low": [1.0, 2.0], "since": [0, 12], "until": [10, None]})
    pq.write_table(prices, folder / "prices.parquet")
    constant = engine.relation(folder / "names.parquet", name="names")
    temporal = engine.relation(folder / "prices.parquet", start="since", end="until")
    query = bids.join(constant, on="item").join(temporal, on="item", broadcast="right")
    assert query.schema.names == ["item", "price", "name", "low", "since", "until"]
    run = query.start(available_now=True)
    wanted = [
        ((2, 10.0, "two", 1.0, 0, 10), 2, 10),
        ((2, 10.0, "two", 2.0, 12, None), 12, 20),
        ((2, 10.0, "two", 2.0, 12, None), 22, 30),
    ]
    assert meaning(run) == LogicalStream.of(wanted)
    # A relation does not hold a query back.
    assert run.stable == 26
    frame = engine.spark.createDataFrame(names.to_pandas())
    other = bids.join(engine.relation(frame, name="frame"), on="item")
    assert meaning(other.start(available_now=True)) == local(bids.join(constant, on="item"))


def test_a_plan_that_reads_a_part_of_it_twice(feeds: tuple[Stream, Stream, Path]) -> None:
    bids, _, _ = feeds
    top = bids.group_by("item").agg(n="COUNT(*)")
    query = top.join(top.agg(most="MAX(n)"), on="n = most")
    assert query.explain().split("Stage 0")[1].count("Aggregate count(*)") == 1  # it runs once
    assert meaning(query.start(available_now=True)) == local(query)


def test_columns_that_clash(feeds: tuple[Stream, Stream, Path]) -> None:
    bids, _, _ = feeds
    assert bids.join(bids, on="item").schema.names == ["item", "price", "price_right"]
    with pytest.raises(PlanError, match="'item_right' is already taken"):
        bids.join(bids).join(bids)
    with pytest.raises(PlanError, match="has no column 'what'"):
        bids.join(bids, on=["what"])


def test_set_operations_and_distinct(feeds: tuple[Stream, Stream, Path]) -> None:
    bids, _, _ = feeds
    dear = bids.where("price > 5")
    for query in (
        bids.difference(dear),
        bids.union(bids).difference(dear, strict=True),
        bids.intersection(bids.union(dear)),
        dear.max_union(bids).distinct(),
    ):
        assert local(query).steps
    query = bids.union(bids).difference(dear).distinct()
    assert meaning(query.start(available_now=True)) == local(query)


def test_a_small_relation_is_looked_up_and_stays_as_it_was(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("k,name\n1,one\n2,two\n")
    rows = tmp_path / "rows"
    rows.mkdir()

    def write(name: str, *keys: int) -> None:
        lines = [f'{{"insert": {{"k": {key}}}, "start": {key}, "end": 9}}\n' for key in keys]
        (rows / name).write_text("".join(lines))

    def query() -> Stream:
        own = Engine(engine.spark, shards=2)
        names = own.relation(tmp_path / "names.csv", name="names")
        return own.stream(rows, name="rows").join(names, ["k"], how="left")

    write("1.jsonl", 1, 3)
    assert "looked up in names" in query().explain()
    query().start(tmp_path / "log", available_now=True).await_end()
    # The relation was all there when the query began; what becomes of its file does not matter.
    (tmp_path / "names.csv").write_text("k,name\n1,changed\n2,changed\n" + "9,more\n" * 3_000_000)
    write("2.jsonl", 2, 1)
    run = query().start(tmp_path / "log", available_now=True)
    run.await_end()
    found = [(row["k"], row["name"]) for row in run.table().to_pylist() if row["kind"] == "insert"]
    assert sorted(found, key=repr) == [(1, "one"), (1, "one"), (2, "two"), (3, None)]
    assert "looked up" not in query().explain()
