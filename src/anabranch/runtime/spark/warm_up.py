"""Python workers of Spark are started before the first batch goes to them.

A job that finds no workers waits for them: processes start, and import what stages need, which
takes seconds. While the driver computes batches itself that is nobody's loss. When batches are
about to become too large for it, a small job in a thread of its own starts workers first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Final, final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

_LOG: Final = logging.getLogger("anabranch")

IDLE_SECONDS: Final = 50.0
"""Spark ends workers that nobody has used for a minute."""

START_AFTER_MS: Final = 1_000.0
"""Workers are started when drivers have lost so much time for want of them.

To start them takes about three seconds of two cores, in the background, while batches go on.
"""


@final
class WorkerWarmUp:
    """Whether Python workers are there, for all queries of one Spark; asked where batches run."""

    def __init__(self, spark: SparkSession, tasks: int) -> None:
        """Nobody knows of any workers yet; so many are wanted."""
        self._spark = spark
        self._tasks = max(1, tasks)
        self._lock = threading.Lock()
        self._under_way = False
        self._used_at: float | None = None
        self._lost = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether a job finds workers."""
        with self._lock:
            return self._used_at is not None and time.monotonic() - self._used_at < IDLE_SECONDS

    def used(self) -> None:
        """A job has just been done."""
        with self._lock:
            self._used_at, self._lost = time.monotonic(), 0.0

    def is_worth_a_start(self, loss: float) -> bool:
        """Whether it pays by now to start workers for batches that tasks would do faster.

        As with skis that are rented until the rent has come to what they are worth: a few batches
        that tasks would have done a little faster are no reason yet.

        Args:
            loss: The milliseconds that the driver takes longer for one more batch.
        """
        with self._lock:
            self._lost += max(0.0, loss)
            return self._lost >= START_AFTER_MS

    def begin(self) -> None:
        """Start workers in the background, unless that is under way."""
        with self._lock:
            if self._under_way:
                return
            self._under_way = True
        threading.Thread(target=self._run, name="anabranch-warm-up", daemon=True).start()

    def _run(self) -> None:
        try:
            warming_job(self._spark, self._tasks).collect()
        except Exception as problem:  # noqa: BLE001 (whatever Spark says)
            # Then the first batch that goes to tasks waits for them, or fails with a better reason.
            _LOG.debug("workers were not started: %s", problem)
        self.used()
        with self._lock:
            self._under_way = False


def warming_job(spark: SparkSession, tasks: int) -> DataFrame:
    """A job of two rounds of Python tasks with an exchange in between, as batches are."""
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(_imported, "id long")
    return rows.repartition(tasks).mapInArrow(_imported, "id long")


def _imported(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Lets rows pass, after what stages need was imported."""
    from anabranch.kernels.columns.grouped import load_beside, start_loading
    from anabranch.runtime.workers.source_task import send_source
    from anabranch.runtime.workers.stage_task import run_level

    assert callable(send_source)
    assert callable(run_level)
    load_beside()
    start_loading()
    yield from batches
