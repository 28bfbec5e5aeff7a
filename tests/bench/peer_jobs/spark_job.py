"""The three jobs in Spark Structured Streaming alone: append mode, closed by the watermark."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from anabranch.engine import Engine
from tests.bench.peer_jobs.contract import serve

WINDOW: Final = "10 seconds"
FILES_PER_BATCH: Final = 4
_COLUMNS: Final = "row BIGINT, k BIGINT, ts BIGINT, at TIMESTAMP_NTZ"


def _rows(spark: SparkSession, folder: Path, name: str, columns: str = _COLUMNS) -> DataFrame:
    return (
        spark.readStream.schema(columns)
        .option("maxFilesPerTrigger", FILES_PER_BATCH)
        .parquet(str(folder / "parquet" / name))
        .withColumn("at", f.col("at").cast("timestamp"))
        .withWatermark("at", "5 seconds")
    )


def _number(frame: DataFrame) -> DataFrame:
    """The number of the window instead of the window."""
    number = (f.unix_seconds(f.col("window.start")) / 10).cast("bigint")
    return frame.withColumn("w", number).drop("window")


def _tumbling(spark: SparkSession, folder: Path) -> DataFrame:
    counts = _rows(spark, folder, "rows").groupBy(f.window("at", WINDOW), "k")
    return _number(counts.agg(f.count("*").alias("n")))


def _join(spark: SparkSession, folder: Path) -> DataFrame:
    sides = [
        _rows(spark, folder, f"{side}_rows").select(
            "k", f.window("at", WINDOW).alias("window"), f.col("row").alias(side[0])
        )
        for side in ("left", "right")
    ]
    return _number(sides[0].join(sides[1], ["k", "window"]))


def _top(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream has no ranks and takes nothing back: lists of what came and went in a window."""
    columns = "row BIGINT, k BIGINT, ts BIGINT, v BIGINT, op BIGINT, at TIMESTAMP_NTZ"
    came, gone = (f.collect_list(f.when(f.col("op") == op, f.col("v"))) for op in (1, -1))
    left = f.slice(f.sort_array(f.array_except(came, gone), asc=False), 1, 3)
    lists = (
        _rows(spark, folder, "changes", columns)
        .groupBy(f.window("at", WINDOW), "k")
        .agg(left.alias("best"))
    )
    return _number(lists).select("k", "w", f.explode("best").alias("v"))


def _run(
    spark: SparkSession, query: Callable[[SparkSession, Path], DataFrame], folder: Path, out: Path
) -> None:
    started = (
        query(spark, folder)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(out / "answer"))
    )
    started.awaitTermination()


if __name__ == "__main__":
    # The session is ours, with all settings that make Spark's own batches faster, too.
    # Spark keeps the state of a join in its own process: it gets room for that.
    with Engine(settings={"spark.driver.memory": "6g"}) as engine:
        session: SparkSession = engine.spark
        serve(
            {
                "tumbling": partial(_run, session, _tumbling),
                "join": partial(_run, session, _join),
                "top": partial(_run, session, _top),
            }
        )
