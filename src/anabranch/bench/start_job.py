"""A first result in a new process: of Anabranch, or of plain Spark."""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module


def main(engine: str, rows: str, folder: str) -> None:
    """Run the query once, and print when its result was there."""
    if engine == "anabranch":
        _anabranch(rows, folder)
    else:
        _spark(rows, folder)
    sys.stdout.write(json.dumps({"first_result_at": time.time()}) + "\n")
    sys.stdout.flush()


def _anabranch(rows: str, folder: str) -> None:
    import anabranch as ab

    query = ab.Engine()
    sales = query.stream(rows, name="Sale", start="time", delay="1 hour")
    best = sales.window("1 hour").group_by("product").agg(most="MAX(amount)")
    run = best.start(to=f"{folder}.jsonl", checkpoint=folder, available_now=True)
    run.await_end()


def _spark(rows: str, folder: str) -> None:
    from anabranch.runtime.spark.java import use_java

    use_java()
    # The peer is plain Spark, without any setting of ours.
    sql, sf = (import_module(name) for name in ("pyspark.sql", "pyspark.sql.functions"))
    spark = sql.SparkSession.builder.master("local[2]").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    frame = spark.readStream.schema("product string, amount double, time timestamp").json(rows)
    best = frame.groupBy(sf.window("time", "1 hour"), "product").agg(sf.max("amount").alias("most"))
    writer = best.writeStream.format("memory").queryName("best").outputMode("complete")
    run = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
    run.awaitTermination()
    spark.table("best").collect()


if __name__ == "__main__":
    main(*sys.argv[1:])
