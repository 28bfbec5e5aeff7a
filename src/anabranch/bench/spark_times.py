"""How long batches on Spark took, and where they ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

from anabranch.runtime.spark.session import DRIVER_ROWS

Batches: TypeAlias = Sequence[Mapping[str, float]]
"""Rows and seconds of each batch of a run."""


@contextmanager
def with_setting(spark: Any, name: str, value: str) -> Iterator[None]:
    """Queries that start now have a setting, which is as before afterwards."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


def without_driver(spark: Any) -> AbstractContextManager[None]:
    """Queries that start now run all their batches as jobs of Spark."""
    return with_setting(spark, DRIVER_ROWS, "0")


def without_empty_batches(spark: Any) -> AbstractContextManager[None]:
    """Queries of Spark that start now have no batch without rows when their watermark moves on.

    Rows wait behind such a batch, so who tunes Spark for latency switches them off.
    """
    return with_setting(spark, "spark.sql.streaming.noDataMicroBatches.enabled", "false")


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
