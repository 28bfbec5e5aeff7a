"""Python workers of Spark are started before the first batch goes to them.

A job that finds no workers waits for them: processes start, and import what stages need, which
takes seconds. While the driver computes batches itself that is nobody's loss. When batches are
about to become too large for it, a small job in a thread of its own starts workers first.

Spark keeps workers by the environment that they were started with, and that of a DataFrame's is not
that of a plain job's (it has SPARK_SIMPLIFIED_TRACEBACK): workers of one kind are no use to the
other. So what starts them is a job of the kind that batches will be.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final, final

import pyarrow as pa
from pyspark.sql import SparkSession

from anabranch.runtime.spark.session import plain_jobs

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

    def forget_losses(self) -> None:
        """Batches will cost something else from now on."""
        with self._lock:
            self._lost = 0.0

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
            start_workers(self._spark, self._tasks)
        except Exception as problem:  # noqa: BLE001 (whatever Spark says)
            # Then the first batch that goes to tasks waits for them, or fails with a better reason.
            _LOG.debug("workers were not started: %s", problem)
        self.used()
        with self._lock:
            self._under_way = False


def start_workers(spark: SparkSession, tasks: int) -> None:
    """Run a job in which so many tasks at once import what stages need."""
    if plain_jobs(spark):
        empty: Any = spark.sparkContext.parallelize((), tasks)
        empty.mapPartitions(_after_imports).collect()
        return
    # Two rounds of tasks with an exchange in between, as batches are.
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(_rows_after_imports, "id long")
    rows.repartition(tasks).mapInArrow(_rows_after_imports, "id long").collect()


def _rows_after_imports(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    _import_stages()
    yield from batches


def _after_imports(nothing: Iterable[object]) -> Iterator[object]:
    # Spark ends the process of a task that leaves some of its input, even of none.
    yield from nothing
    _import_stages()


def _import_stages() -> None:
    from anabranch.kernels.columns.grouped import start_loading
    from anabranch.runtime.spark import batch_tasks
    from anabranch.runtime.workers.begin_task import begin_task
    from anabranch.runtime.workers.source_task import send_source

    assert callable(send_source)
    assert callable(batch_tasks.batch_tasks)
    begin_task()
    start_loading()
