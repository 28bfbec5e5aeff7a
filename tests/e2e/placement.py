"""Where the batches of queries run that start now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anabranch.runtime.spark.session import DRIVER_ROWS, PLAIN_JOBS, ROWS_PER_TASK, TASK_ROWS


@contextmanager
def share(
    spark: Any, rows: int, *, plain: bool = True, parts_of: int = TASK_ROWS
) -> Iterator[None]:
    """Queries that start now leave the driver batches of up to so many rows, in such parts."""
    before = spark.conf.get(DRIVER_ROWS)
    spark.conf.set(ROWS_PER_TASK, str(parts_of))
    spark.conf.set(DRIVER_ROWS, str(rows))
    spark.conf.set(PLAIN_JOBS, str(plain).lower())
    try:
        yield
    finally:
        spark.conf.set(DRIVER_ROWS, before)
        spark.conf.unset(PLAIN_JOBS)
        spark.conf.unset(ROWS_PER_TASK)
