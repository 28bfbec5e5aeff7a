"""How long batches on Spark took, and where they ran."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anabranch.runtime.spark.session import DRIVER_ROWS


@contextmanager
def without_driver(spark: Any) -> Iterator[None]:
    """Queries that start now run all their batches as jobs of Spark."""
    before = spark.conf.get(DRIVER_ROWS, None)
    spark.conf.set(DRIVER_ROWS, "0")
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(DRIVER_ROWS)
        else:
            spark.conf.set(DRIVER_ROWS, before)


def batch_times(query: Any) -> list[dict[str, float]]:
    """Rows and seconds of every batch that did something, after the query has ended."""
    query.awaitTermination()
    return [
        {
            "rows": float(progress.numInputRows),
            "seconds": progress.durationMs.get("triggerExecution", 0) / 1000.0,
        }
        for progress in query.recentProgress
        if progress.numInputRows
    ]
