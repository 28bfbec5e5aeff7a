"""What somebody who uses PySpark every day tries first, on Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from pyspark.sql import Column, SparkSession, Window
from pyspark.sql import functions as sf

from anabranch import Engine, Stream
from anabranch.errors import AnabranchError, QueryError

pytestmark = pytest.mark.spark

ROWS = [
    {"item": 1, "price": 80.0, "name": "x", "at": "2026-11-01T10:00:01"},
    {"item": 2, "price": 15.0, "name": "it's", "at": "2026-11-01T10:00:04"},
    {"item": 1, "price": 95.0, "name": None, "at": "2026-11-01T10:00:07"},
]
SEVEN = "2026-11-01 10:00:07"


@pytest.fixture(scope="module")
def spark(first_engine: Engine) -> SparkSession:
    session: SparkSession = first_engine.spark
    return session


@pytest.fixture
def bids(engine: Engine) -> Stream:
    return engine.stream(ROWS, start="at", name="Bid")


def conditions() -> list[tuple[Column, str]]:
    item, price, name, at = (sf.col(each) for each in ("item", "price", "name", "at"))
    return [
        (price > 80, "price > 80"),
        ((price * 2 + 1 > 80) & ~(item == 2), "(price * 2D + 1D > 80D) AND NOT item = 2"),
        (name == "it's", "name = 'it\\'s'"),
        (item.isin(1, 3) | name.isNull(), "item IN (1, 3) OR name IS NULL"),
        (price.between(1.5, 95), "price >= 1.5D AND price <= 95"),
        (name.like("i%") & name.startswith("i"), "name LIKE 'i%' AND startswith(name, 'i')"),
        (
            at > sf.lit(dt.datetime(2026, 11, 1, 10, 0, 4)),
            "at > TIMESTAMP_NTZ '2026-11-01 10:00:04'",
        ),
        (item.cast("double") / 2 >= 0.5, "CAST(item AS DOUBLE) / 2 >= 0.5D"),
        (
            sf.when(item > 1, "b").otherwise(name) == "b",
            "CASE WHEN item > 1 THEN 'b' ELSE name END = 'b'",
        ),
        (item.eqNullSafe(2), "item <=> 2"),
        (sf.expr("item between 1 and 2"), "item between 1 and 2"),
    ]


def test_columns_of_spark_mean_what_their_text_means(spark: SparkSession, bids: Stream) -> None:
    del spark  # It has to be there before a column is made.
    for column, text in conditions():
        try:
            found = bids.where(column).run_local().events().to_pylist()
        except AnabranchError as problem:
            raise AssertionError(str(column)) from problem
        assert found == bids.where(text).run_local().events().to_pylist(), str(column)


def test_columns_of_spark_stand_wherever_text_does(spark: SparkSession, bids: Stream) -> None:
    del spark
    held = bids.window("10 seconds")
    grouped = held.groupBy(sf.col("item")).agg(
        sf.max("price").alias("top"), sf.count("*").alias("n"), low=sf.min(sf.col("price") * 2)
    )
    assert grouped.columns == ["item", "top", "n", "low"]
    assert sorted(map(str, grouped.snapshot(SEVEN).to_pylist())) == [
        "{'item': 1, 'top': 95.0, 'n': 2, 'low': 160.0}",
        "{'item': 2, 'top': 15.0, 'n': 1, 'low': 30.0}",
    ]
    first = held.top(1, sf.col("price").desc()).select("item", (sf.col("price") / 5).alias("p"))
    assert first.snapshot(SEVEN).to_pylist() == [{"item": 1, "p": 19.0}]
    assert bids.withColumn("two", sf.lit(2)).drop(sf.col("at")).columns[-1] == "two"


def test_columns_that_have_no_text_are_refused_with_one(spark: SparkSession, bids: Stream) -> None:
    del spark

    twice = sf.udf(lambda value: value * 2, "int")
    place = sf.rank().over(Window.partitionBy("item").orderBy("at"))
    refused: list[tuple[Column, str, str]] = [
        (sf.count_distinct("item"), "cannot be translated", "write SQL text"),
        (sf.window("at", "1 hour"), "window of Spark", "stream.tumbling('1 hour', by="),
        (sf.window("at", "2 hours", "1 hour"), "window of", "stream.hopping('2 hours', '1 hour'"),
        (sf.session_window("at", "5 minutes"), "session_window", "stream.sessions('5 minutes'"),
        (twice("item"), "a Python function of Spark", "engine.register(ab.udf(function))"),
        (place, "a window function of Spark", "stream.rank("),
        (sf.explode(sf.array("item")), "makes several rows out of one", "stream.explode("),
        (sf.col("nowhere") > 1, "Spark cannot read", "columns are: "),
    ]
    for column, what, hint in refused:
        with pytest.raises(QueryError, match=what) as caught:
            bids.select(column)
        assert hint in str(caught.value.hint)
        assert "UnresolvedAttribute" not in str(caught.value)


def test_answers_of_a_run_on_spark(
    spark: SparkSession, bids: Stream, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = bids.window("10 seconds").groupBy("item").agg("MAX(price) AS top", n="COUNT(*)")
    run = query.start(to=tmp_path / "out", available_now=True)
    run.await_end()
    assert "ended; 1 batch, 3 rows read" in repr(run)
    assert repr(run).endswith("all final>")
    assert "<td" in run._repr_html_()
    local = query.run_local()
    assert run.events() == local.events()
    instants = ["2026-11-01 10:00:04", SEVEN]
    assert run.snapshots(instants) == local.snapshots(instants)
    run.show(at=SEVEN)
    assert capsys.readouterr().out.splitlines()[-1] == "2 rows at 2026-11-01T10:00:07; final"
    assert run.to_pandas()["top"].tolist() == [80.0, 15.0, 95.0, 95.0]
    frame = run.events().to_spark()
    assert frame.where("item = 1 AND final").count() == 3
    assert frame.schema["start"].dataType.typeName() == "timestamp"
    assert sorted(row["top"] for row in run.snapshot(SEVEN).collect()) == [15.0, 95.0]
    again = spark.createDataFrame(run.events().to_pandas()[["item", "top"]])
    assert again.count() == 4
    resumed = query.start(to=tmp_path / "out", available_now=True)
    resumed.await_end()
    assert "ended; 0 batches" in repr(resumed)
    assert repr(resumed).endswith("all final>")
    assert resumed.events() == run.events()


def test_a_run_on_spark_says_what_to_write(spark: SparkSession, bids: Stream) -> None:
    del spark
    with bids.start(available_now=True) as run:
        for name in ("awaitTermination", "lastProgress", "toPandas", "isActive"):
            with pytest.raises(AttributeError, match=f"a run has no '{name}'; write run."):
                getattr(run, name)
        run.await_end()


def test_a_data_frame_that_does_not_stream_ends(spark: SparkSession, engine: Engine) -> None:
    frame = spark.createDataFrame([(1, 5)], "item INT, at LONG")
    with pytest.raises(AnabranchError, match="end with the last one"):
        engine.stream(frame, start="at", ends=False)


def test_an_engine_stops_only_a_spark_that_it_has_started(spark: SparkSession) -> None:
    with Engine() as other:
        assert other.spark is spark
    assert spark.range(3).count() == 3


def test_a_resumed_run_has_the_stable_point_of_its_checkpoint(bids: Stream, tmp_path: Path) -> None:
    query = bids.window("10 seconds").groupBy("item").agg(n="COUNT(*)")
    for _ in range(2):
        run = query.start(
            to=tmp_path / "out.jsonl", checkpoint=tmp_path / "checkpoint", available_now=True
        )
        run.await_end()
        assert repr(run).endswith("all final>")
    assert "ended; 0 batches" in repr(run)
