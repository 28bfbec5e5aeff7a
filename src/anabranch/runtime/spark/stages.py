"""The chain of exchanges and stages as a streaming DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from anabranch.runtime.elements.exchange import PARCELS_DDL
from anabranch.runtime.spark.batch_id import current_batch, current_partition
from anabranch.runtime.spark.job_in_force import current_job
from anabranch.runtime.workers.begin_task import begin_task
from anabranch.runtime.workers.job import Job, seal
from anabranch.runtime.workers.stage_task import run_level

OBSERVED: Final = "anabranch"
"""The name of our figures in Spark's progress."""

Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def settle(parcels: pa.Table, job: Job, batch: int) -> pa.Table:
    """The only stage of a query whose senders have delivered everything, run right here.

    All that is left is to note progress; that is not worth an exchange and a round of tasks.
    """
    (level,) = job.levels()
    shards = range(job.most_shards(level))
    return pa.Table.from_batches(run_level(job, level, shards, batch, iter(parcels.to_batches())))


def chain_stages(
    parcels: DataFrame,
    job: Job,
    *,
    first: int = 0,
    home: str = "",
    rows: StructType | None = None,
) -> DataFrame:
    """Put an exchange and a level of stages behind each other, for all levels.

    A job that takes the place of this one has its levels in the same tasks. Where it has fewer of
    them, the last ones let everything pass; where it has more, those from `first` on are put behind
    the DataFrame of each batch.

    Args:
        parcels: What all sources send, or the levels before the first.
        job: The query.
        first: The number of the first level that is not done yet.
        home: Where a job is left that takes the place of this one.
        rows: The columns of the result where the last stage yields rows.
    """
    levels = job.levels()
    if first >= len(levels):
        return parcels
    sealed = seal(job)
    for number in range(first, len(levels)):
        result = PARCELS_DDL if number + 1 < len(levels) else rows or PARCELS_DDL
        width = job.width(levels[number])
        exchanged = parcels.repartitionById(width, sf.col("shard") % width)
        parcels = exchanged.mapInArrow(_level(sealed, home, number, width), result)
    return parcels


def collected(frame: DataFrame, job: Job, batch: int, done: int) -> pa.Table:
    """What all shards give in a batch, from a DataFrame in which so many levels are done."""
    if done == 0 and job.is_delivered_by_senders:
        return settle(frame.toArrow(), job, batch)
    return chain_stages(frame, job, first=done).toArrow()


def observed(results: DataFrame) -> DataFrame:
    """Results that tell Spark of their batch, so that its own progress listeners hear of it.

    In `observedMetrics` of a progress, under `anabranch`: the rows that the last stages took in and
    gave out, the rows of state they hold, and the stable point of the output.
    """

    def field_of(name: str) -> Column:
        return sf.get_json_object("head", f"$.said.{name}").cast("long")

    return results.observe(
        OBSERVED,
        sf.sum(field_of("rows_in")).alias("rows_in"),
        sf.sum(field_of("rows_out")).alias("rows_out"),
        sf.sum(field_of("state_rows")).alias("state_rows"),
        sf.min(field_of("stable")).alias("stable"),
    )


def _level(sealed: bytes, home: str, number: int, width: int) -> Worker:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        job = current_job(sealed, home)
        levels = job.levels()
        if number >= len(levels):
            return batches
        level = levels[number]
        shards = range(current_partition(), job.most_shards(level), width)
        return run_level(job, level, shards, current_batch(), batches)

    return run
