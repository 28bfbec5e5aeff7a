"""A batch as plain jobs of Spark on one machine: tasks that read, then tasks that compute.

The DataFrame that Spark hands to `foreachBatch` does the same with one job, at a price: a query
plan per batch, rows that become Arrow and rows again at every exchange, files of a shuffle. Where
all rows come from files, the plan of the batch is in the checkpoint already, and where Spark runs
in one process, tasks can leave parcels for each other in files, which the reader maps into memory:

    job 0: part 0 -> send -> 0/0/0.arrow, 0/1/0.arrow      (level / partition / sender)
           part 1 -> send -> 0/0/1.arrow, 0/1/1.arrow
    job 1: 0/0/* -> run_level -> driver
           0/1/* -> run_level -> driver

The jobs are made once, as DataFrames are: what changes from batch to batch is the number of the
batch, which Spark tells its tasks. They call the same functions over the same store as those of the
DataFrame, so the result is the same, and a batch that is run again after a crash may go the other
way. A task that is tried again writes the same files again.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import pyarrow as pa

from anabranch.runtime.elements.exchange import PARCELS, by_partition
from anabranch.runtime.spark.batch_id import current_batch, current_query
from anabranch.runtime.spark.job_in_force import store_job, stored_job
from anabranch.runtime.spark.session import plain_jobs
from anabranch.runtime.spark.stages import settle
from anabranch.runtime.store.phases import reached
from anabranch.runtime.workers.batch_plan import BatchPlan
from anabranch.runtime.workers.begin_task import begin_task
from anabranch.runtime.workers.job import Job, unseal
from anabranch.runtime.workers.stage_task import run_level

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.runtime.sources.files.planned_batch import PlannedBatch

_UNNAMED: Final = ".part"
"""How the name of a file ends that is not whole yet."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """What all tasks have to know.

    Attributes:
        plan: What is planned for a batch; the job is not in it.
        home: The checkpoint of the query.
        stored: The file in it that holds the job.
        exchange: The folder where tasks leave parcels for others.
    """

    plan: BatchPlan
    home: str
    stored: str
    exchange: str

    def job(self) -> Job:
        """The query, as the driver has stored it."""
        return _unsealed(self.home, self.stored, current_query())

    def parcels(self, batch: int, level: int, partition: int) -> Path:
        """The folder of what a task of a level finds in a batch."""
        return Path(self.exchange, str(batch), str(level), str(partition))


@lru_cache(maxsize=16)
def _unsealed(home: str, stored: str, query: str) -> Job:
    return unseal(stored_job(home, stored), query)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTasks:
    """Runs the batches of one plan.

    Attributes:
        spark: The session.
        job: The query.
        told: What its tasks know.
    """

    spark: SparkSession
    job: Job
    told: TaskPlan
    _jobs: dict[tuple[int, int], Any] = field(default_factory=dict)

    def run(self, entries: Mapping[int, PlannedBatch], batch: int) -> pa.Table:
        """The results of a batch, called by the thread of Spark that does it."""
        parts = self.told.plan.parts(entries)
        senders = min(sum(bool(part.splits) for part in parts), self.told.plan.files.parts)
        folder = Path(self.told.exchange, str(batch))
        try:
            if self.job.is_delivered_by_senders:
                return settle(self._collect(-1, max(1, senders), last=True), self.job, batch)
            self._collect(-1, max(1, senders))
            levels = self.job.levels()
            for number, level in enumerate(levels[:-1]):
                self._collect(number, self.job.width(level))
            return self._collect(len(levels) - 1, self.job.width(levels[-1]), last=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _collect(self, level: int, tasks: int, *, last: bool = False) -> pa.Table:
        """Run the tasks of a level, or the senders before the first; what they give the driver."""
        if (level, tasks) not in self._jobs:
            levels = self.job.levels()
            width = 0 if last else self.job.width(levels[level + 1])
            work = partial(_run, self.told, level, tasks, width)
            empty: Any = self.spark.sparkContext.parallelize((), tasks)
            self._jobs[level, tasks] = empty.mapPartitionsWithIndex(work)
        given: list[bytes] = self._jobs[level, tasks].collect()
        batches = [rows for data in given for rows in pa.ipc.open_stream(data)]
        return pa.Table.from_batches(batches, PARCELS)


def batch_tasks(
    spark: SparkSession, job: Job, plan: BatchPlan | None, home: str, stored: str | None
) -> BatchTasks | None:
    """Who runs the batches of a plan; None where tasks may be on several machines, or shall not.

    `stored` is the file with the job, if it has one already.
    """
    if plan is None or not plain_jobs(spark):
        return None
    from pyspark import SparkFiles

    # Spark removes this folder when it stops.
    exchange = f"{SparkFiles.getRootDirectory()}/anabranch-{uuid.uuid4().hex}"
    told = TaskPlan(
        plan=replace(plan, files=replace(plan.files, job=b"")),
        home=home,
        stored=stored or store_job(home, plan.files.job),
        exchange=exchange,
    )
    return BatchTasks(spark=spark, job=job, told=told)


def _run(
    told: TaskPlan, level: int, tasks: int, width: int, task: int, nothing: Iterable[object]
) -> Iterator[bytes]:
    """One task; `width` is the number of partitions that it leaves parcels for, 0: the driver."""
    # Spark ends the process of a task that leaves some of its input, even of none.
    assert not list(nothing)
    begin_task()
    batch, job = current_batch(), told.job()
    if level < 0:
        given = _sent(told, job, batch, task, tasks)
    else:
        stages = job.levels()[level]
        shards = range(task, job.most_shards(stages), tasks)
        given = run_level(job, stages, shards, batch, _arriving(told.parcels(batch, level, task)))
    if width == 0:
        yield _stream(given)
    else:
        _leave(told, batch, level + 1, task, width, given)
    if level < 0:
        reached("read", batch)


def _sent(told: TaskPlan, job: Job, batch: int, task: int, tasks: int) -> Iterator[pa.RecordBatch]:
    """What the parts of a batch send that a task reads."""
    plan = told.plan
    parts = plan.parts(plan.entries(batch))
    with_rows = [part for part in parts if part.splits]
    others = [part for part in parts if not part.splits]
    for part in [*with_rows, *others][task::tasks]:
        yield from plan.files.send(part, batch, job)


def _leave(
    told: TaskPlan,
    batch: int,
    level: int,
    sender: int,
    width: int,
    given: Iterable[pa.RecordBatch],
) -> None:
    """Write parcels into a file for each partition of the next level that gets some."""
    waiting: dict[int, Any] = {}
    for rows in given:
        for partition, own in by_partition(rows, width):
            if partition not in waiting:
                folder = told.parcels(batch, level, partition)
                folder.mkdir(parents=True, exist_ok=True)
                waiting[partition] = pa.ipc.new_stream(folder / f"{sender}{_UNNAMED}", PARCELS)
            waiting[partition].write_batch(own)
    for partition, writer in waiting.items():
        writer.close()
        file = told.parcels(batch, level, partition) / f"{sender}{_UNNAMED}"
        file.replace(file.with_suffix(".arrow"))


def _arriving(folder: Path) -> Iterator[pa.RecordBatch]:
    """The parcels for a task, mapped into memory, by sender."""
    files = folder.glob("*.arrow") if folder.exists() else ()
    for file in sorted(files, key=lambda file: int(file.stem)):
        with pa.memory_map(str(file)) as mapped:
            yield from pa.ipc.open_stream(mapped)


def _stream(batches: Iterable[pa.RecordBatch]) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, PARCELS) as writer:
        for rows in batches:
            writer.write_batch(rows)
    data: bytes = out.getvalue().to_pybytes()
    return data
