"""The answer at one instant, out of elements, by Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from anabranch.model.clock import Clock
from anabranch.model.time import FOREVER, Time


def read_elements(spark: SparkSession, files: Sequence[str], revisions: Sequence[str]) -> DataFrame:
    """The rows of element files, and the changes of revisions with kinds of their own."""
    if not revisions:
        return spark.read.parquet(*files)
    kind = sf.concat(sf.lit("revise-"), sf.col("kind"))
    changes = spark.read.parquet(*revisions).withColumn("kind", kind)
    return spark.read.parquet(*files).unionByName(changes) if files else changes


def with_times(elements: DataFrame, clock: Clock) -> DataFrame:
    """Elements whose times are timestamps, if those of the stream are; NULL is forever."""
    if not clock.timestamps:
        return elements
    step = sf.lit(clock.chronon or 1)
    for name in ("start", "end", "new_end"):
        time = sf.col(name)
        shown = sf.when(time < sf.lit(int(FOREVER)), sf.timestamp_micros(time * step))
        elements = elements.withColumn(name, shown)
    return elements


def snapshot_of(elements: DataFrame, payload: pa.Schema, at: Time) -> DataFrame:
    """Add up what every element does to the multiplicity of its payload at the instant.

    An insert adds one from its start to its end, an adjust from the old end to the new one, or
    takes one away where that runs backwards.
    """
    end = sf.coalesce(sf.col("end"), sf.lit(int(FOREVER)))
    is_insert = sf.col("kind").isin("insert", "revise-insert")
    low = sf.when(is_insert, sf.col("start")).otherwise(end)
    new_end = sf.coalesce(sf.col("new_end"), sf.lit(int(FOREVER)))
    high = sf.when(is_insert, end).otherwise(new_end)
    instant = sf.lit(int(at))
    weight = sf.when((low <= instant) & (instant < high), 1)
    weight = weight.when((high <= instant) & (instant < low), -1).otherwise(0)
    names = [_quoted(name) for name in payload.names]
    net = (
        elements.where(~sf.col("kind").isin("stable", "revise"))
        .select(*names, weight.alias("__weight"))
        .where("__weight != 0")
        .groupBy(*names)
        .agg(sf.sum("__weight").alias("__count"))
        .where("__count > 0")
    )
    times = sf.explode(sf.array_repeat(sf.lit(0), sf.col("__count").cast("int")))
    return net.withColumn("__copy", times).select(*names)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
