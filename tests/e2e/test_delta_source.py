"""A Delta table as a source of a query on Spark, over restarts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from anabranch.engine import Engine

pytestmark = pytest.mark.spark


def test_a_query_follows_a_table_that_is_appended_to_and_corrected(
    engine: Engine, tmp_path: Path
) -> None:
    path = str(tmp_path / "bids")
    feed = {"delta.enableChangeDataFeed": "true"}
    first = pa.table({"item": [1, 1, 2], "price": [5.0, 7.0, 3.0], "at": [1, 2, 3]})
    write_deltalake(path, first, configuration=feed, partition_by=["item"])
    # A file that is dead before the query begins.
    DeltaTable(path).delete("price = 7.0")
    bids = engine.stream(f"delta:{path}", name="DeltaBid", start="at", max_files_per_batch=1)
    query = bids.window(10).group_by("item").agg(highest="MAX(price)")
    names = engine.relation(path, name="DeltaItem").select("item").distinct()

    def answer() -> list[dict[str, object]]:
        run = query.start(tmp_path / "out", available_now=True)
        run.await_end()
        return sorted((row.asDict() for row in run.snapshot(5).collect()), key=repr)

    assert answer() == [{"item": 1, "highest": 5.0}, {"item": 2, "highest": 3.0}]
    write_deltalake(path, first.slice(0, 1).set_column(1, "price", [[9.0]]), mode="append")
    assert answer() == [{"item": 1, "highest": 9.0}, {"item": 2, "highest": 3.0}]
    DeltaTable(path).delete("price = 9.0 OR item = 2")
    DeltaTable(path).optimize.compact()
    assert answer() == [{"item": 1, "highest": 5.0}]
    run = names.start(available_now=True)
    run.await_end()
    assert [row.item for row in run.snapshot(0).collect()] == [1]
