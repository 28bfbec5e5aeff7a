"""The same jobs as plain Spark does them: what benchmarks are measured against."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.functions import col, count, window
from pyspark.sql.functions import max as spark_max
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import DoubleType

from anabranch.bench.spark_times import with_setting
from anabranch.errors import PlanError

# Workers cannot import this file: what they run is sent to them as it is.
cast("Any", cloudpickle).register_pickle_by_value(sys.modules[__name__])

STORE = "spark.sql.streaming.stateStore"
ROCKSDB = {
    f"{STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",
    # As Spark's guide recommends: a batch writes what it has changed and no whole snapshot.
    f"{STORE}.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Python state needs this store; it is set for the start of that query only."""


def _rows(spark: SparkSession, folder: Path, files_per_batch: int) -> DataFrame:
    return (
        spark.readStream.schema("k BIGINT, v DOUBLE, ts TIMESTAMP_NTZ")
        .option("maxFilesPerTrigger", files_per_batch)
        .parquet(str(folder))
        .withColumn("ts", col("ts").cast("timestamp"))
    )


def native_tumbling(
    spark: SparkSession, folder: Path, checkpoint: Path, files_per_batch: int
) -> StreamingQuery:
    """Count per key and 10 seconds with Spark's own windowed aggregation."""
    counts = (
        _rows(spark, folder, files_per_batch)
        .withWatermark("ts", "5 seconds")
        .groupBy(window("ts", "10 seconds"), "k")
        .count()
    )
    return _start(counts, checkpoint)


def native_count(
    spark: SparkSession, folder: Path, checkpoint: Path, files_per_batch: int
) -> StreamingQuery:
    """Count per key, Spark's smallest stateful query."""
    counts = _rows(spark, folder, files_per_batch).groupBy("k").count()
    return _start(counts, checkpoint)


def watched_tumbling(
    spark: SparkSession, folder: Path, checkpoint: Path, saw: Callable[[int | None], None]
) -> StreamingQuery:
    """Count per key and 10 seconds while it runs; `saw` gets the latest time of a batch."""

    def tell(frame: DataFrame, _batch: int) -> None:
        # As a reader would: the results of the batch come to the driver.
        times = frame.toArrow().column("latest").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        saw(pc.max(times).as_py())

    counts = (
        _rows(spark, folder, 1_000)
        .withWatermark("ts", "1 second")
        .groupBy(window("ts", "10 seconds"), "k")
        .agg(count("*").alias("n"), spark_max("ts").alias("latest"))
    )
    return (
        counts.writeStream.foreachBatch(tell)
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def pandas_tumbling(spark: SparkSession, folder: Path) -> int:
    """The mean per key and 10 seconds by a pandas UDF, over all rows at once; gives how many.

    Spark has no such UDFs over streams.
    """
    # Its signature knows only the kinds of functions that Spark had before type hints.
    mean = cast("Any", pandas_udf)(_mean, DoubleType())
    told = Observation()
    means = (
        spark.read.schema("k BIGINT, v DOUBLE, ts TIMESTAMP_NTZ")
        .parquet(str(folder))
        .groupBy("k", window("ts", "10 seconds"))
        .agg(mean("v").alias("mean"))
        .observe(told, count("*").alias("windows"))
    )
    means.write.format("noop").mode("overwrite").save()
    return int(told.get["windows"])


def _mean(values: pd.Series) -> float:
    return float(values.mean())


class _CountWindows(StatefulProcessor):
    """Counts per 10 seconds for one key, the way the documentation teaches it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._counts = handle.getMapState("counts", "start BIGINT", "n BIGINT")

    def handleInputRows(  # noqa: N802 - the name is Spark's
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        del timerValues
        for frame in rows:
            starts = frame["ts"].astype("int64") // 10_000_000_000
            sizes = starts.value_counts()
            out = []
            for start, size in sizes.items():
                before = self._counts.getValue((int(start),))
                total = (before[0] if before else 0) + int(size)
                self._counts.updateValue((int(start),), (total,))
                out.append((key[0], int(start), total))
            yield pd.DataFrame(out, columns=["k", "start", "n"])

    def close(self) -> None:
        """Nothing to close."""


def python_state_tumbling(
    spark: SparkSession, folder: Path, checkpoint: Path, files_per_batch: int
) -> StreamingQuery:
    """The same count in Python state per key (`transformWithStateInPandas`).

    Raises:
        PlanError: A package that Spark needs for it is missing.
    """
    if find_spec("google") is None or find_spec("google.protobuf") is None:
        raise PlanError(
            "Spark's Python state needs the package protobuf",
            where="transformWithStateInPandas",
            hint="pip install 'anabranch[bench]'",
        )
    counts = (
        _rows(spark, folder, files_per_batch)
        .groupBy("k")
        .transformWithStateInPandas(
            statefulProcessor=_CountWindows(),
            outputStructType="k BIGINT, start BIGINT, n BIGINT",
            outputMode="Update",
            timeMode="None",
        )
    )
    with ExitStack() as settings:
        for name, value in ROCKSDB.items():
            settings.enter_context(with_setting(spark, name, value))
        return _start(counts, checkpoint)


def _start(counts: DataFrame, checkpoint: Path) -> StreamingQuery:
    return (
        counts.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
