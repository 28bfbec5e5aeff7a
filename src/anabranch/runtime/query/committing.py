"""How a batch becomes part of all outputs of a query."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import pyarrow as pa

from anabranch.errors import AnabranchError
from anabranch.kernels.contract.command import WEAKEN
from anabranch.model.clock import Clock
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.measure.measurements import Measurements
from anabranch.runtime.query.batch_times import BatchTimes
from anabranch.runtime.query.driver_share import DriverShare
from anabranch.runtime.query.metrics import BatchMetrics, RunTotals, batch_metrics
from anabranch.runtime.query.notes import warn_of_rewritten
from anabranch.runtime.query.quarantine import Quarantine, failed_windows
from anabranch.runtime.query.switching import Switcher
from anabranch.runtime.revisions.copied_revisions import CopiedRevisions
from anabranch.runtime.revisions.reviser import Reviser
from anabranch.runtime.sinks.sinks import ShardResult, Sink
from anabranch.runtime.sources.files.log_records import NOTHING_KNOWN
from anabranch.runtime.sources.files.planned_batch import PlannedBatch
from anabranch.runtime.spark.batch_tasks import BatchTasks
from anabranch.runtime.spark.job_in_force import tell_tasks
from anabranch.runtime.spark.stages import collected
from anabranch.runtime.store.phases import reached
from anabranch.runtime.workers.batch_plan import BatchPlan
from anabranch.runtime.workers.job import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@final
class Committed:
    """What the driver knows of the batches it has committed; shared with Spark's callback."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.lock: threading.Lock = threading.Lock()
        self.metrics: list[BatchMetrics] = []
        self.stable: Time = BEGINNING
        self.failure: AnabranchError | None = None
        self.totals: RunTotals = RunTotals()
        self.times: BatchTimes = BatchTimes()

    def add(self, metrics: BatchMetrics, most: int = 1000) -> None:
        """Note a batch."""
        with self.lock:
            self.totals = self.totals.plus(metrics)
            self.stable = Time(metrics.stable)
            self.metrics.append(metrics)
            del self.metrics[:-most]


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Output:
    """One output: its sink, its columns, how it counts time, and what was committed."""

    sink: Sink
    schema: pa.Schema
    clock: Clock
    committed: Committed


def _lifetimes(job: Job, results: Sequence[ShardResult]) -> list[list[tuple[int, int]]]:
    """The lifetimes of what each output got in a batch; nothing where lineage is not noted."""
    if not job.notes_lineage:
        return []
    found: list[list[tuple[int, int]]] = [[] for _ in job.plan.outputs]
    for result in results:
        found[result.head.output] += result.head.lifetimes
    return found


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanOfBatches:
    """By what batches are computed, and where they go, until the plan of the query changes.

    Attributes:
        job: What is computed, as workers know it.
        outputs: Where its results go.
        levels: How many levels of stages Spark's DataFrame has.
        reviser: Who brings revisions of what has left, if somebody does.
        plan: Where the driver finds what is planned for a batch, if it can.
        share: The driver's share of the batches.
        tasks: Who runs the others as plain jobs; None: Spark's DataFrame does.
        measurements: What is measured of them.
        stored: The file with the job, if it is another one than that of Spark's DataFrame.
    """

    job: Job
    outputs: tuple[Output, ...]
    levels: int
    reviser: Reviser | CopiedRevisions | None = None
    plan: BatchPlan | None = None
    share: DriverShare | None = None
    tasks: BatchTasks | None = None
    measurements: Measurements | None = None
    stored: str | None = None


@final
class Committer:
    """Brings a batch to all sinks; one that has it already takes it again without harm.

    When a batch begins, `now` may be exchanged: it is then computed by another plan.
    """

    def __init__(
        self,
        spark: SparkSession,
        home: str,
        quarantine: Quarantine,
        switcher: Switcher,
        begun: int = -1,
    ) -> None:
        """Of the query in a checkpoint; `now` is still to be set.

        Batches up to `begun` may be in the sinks already.
        """
        self.now: PlanOfBatches
        self._spark = spark
        self._home = home
        self._quarantine = quarantine
        self._switcher = switcher
        self._begun = begun

    def commit(self, frame: DataFrame, batch: int) -> None:
        """Compute a batch, and bring it to all sinks.

        Raises:
            SwitchError: Spark's query has to be started again, with another plan or to do the batch
                once more: it is given up before anything of it has left.
        """
        try:
            if batch > self._begun:
                # A batch that is done again may have been read from a sink: it stays what it was.
                self._switcher.before(batch)
            self._commit(frame, batch, self.now)
        except AnabranchError as problem:
            for output in self.now.outputs:
                output.committed.failure = problem
            raise

    def _commit(self, frame: DataFrame, batch: int, now: PlanOfBatches) -> None:
        began = time.perf_counter()
        outputs, reviser, share = now.outputs, now.reviser, now.share
        if isinstance(reviser, Reviser):
            reviser.begin(batch)
        results = ShardResult.of_table(self._computed(frame, batch, now))
        reached("collected", batch)
        ran = "tasks" if share is None else share.ran
        metrics = [batch_metrics(batch, results, n, ran=ran) for n in range(len(outputs))]
        self._quarantine.note(batch, [*failed_windows(metrics[0])])
        self._warn(now.job, metrics[0])
        commands = metrics[0].control
        stables = [Time(each.stable) for each in metrics]
        revisions: list[list[Revision]] = [[] for _ in outputs]
        if reviser is not None:
            revisions = reviser.revisions(batch, commands)
        self._begun = max(self._begun, batch)
        if any(command.verb == WEAKEN for command in commands):
            for output in outputs:
                # A merge has gone over to a weaker case: its log promises no more than that.
                output.sink.rely_on(NOTHING_KNOWN)
        for number, output in enumerate(outputs):
            own = [result for result in results if result.head.output == number]
            stable = Time(min(result.head.stable for result in own))
            output.sink.commit(batch, stable, own, revisions[number])
        if reviser is not None:
            reviser.committed(batch, commands, stables, _lifetimes(now.job, results))
        for output, metric in zip(outputs, metrics, strict=True):
            output.committed.add(metric)
            seconds = time.perf_counter() - began
            output.committed.times.add(seconds, metric.rows_in, metric.stable)
        reached("committed", batch)
        if now.measurements is not None:
            counters = [each for one in results for each in one.head.counters]
            now.measurements.add(batch, counters, in_driver=ran == "driver")
        self._switcher.after(batch, commands, stables)

    def _warn(self, job: Job, metrics: BatchMetrics) -> None:
        """Tell of files that were written again after they were read."""
        if metrics.rewritten:
            revised = [name for name, each in job.promises.items() if each.late == "revise"]
            rewritten = {name: each.rewritten for name, each in metrics.sources.items()}
            warn_of_rewritten(rewritten, revised)

    def _computed(self, frame: DataFrame, batch: int, now: PlanOfBatches) -> pa.Table:
        """What all shards give; a batch whose late events were moved by rows in time runs twice."""
        holds = now.reviser if isinstance(now.reviser, Reviser) else None
        try:
            rows = self._computed_once(frame, batch, now)
        except Exception:
            # What a user operator makes of a move of an event that it does not know is an error.
            if holds is None or not holds.hold_back(batch):
                raise
        else:
            if holds is None or not holds.hold_back(batch):
                return rows
        if now.share is None or now.share.ran == "tasks":
            self._switcher.repeat()
        return self._computed_once(frame, batch, now)

    def _computed_once(self, frame: DataFrame, batch: int, now: PlanOfBatches) -> pa.Table:
        """What all shards give: computed right here, or by a job of Spark."""
        share, tasks = now.share, now.tasks
        entries: Mapping[int, PlannedBatch] = {} if now.plan is None else now.plan.entries(batch)
        rows = None if share is None else share.run(batch, entries)
        if rows is None and tasks is not None and entries:
            rows = tasks.run(entries, batch)
        if rows is None:
            if now.stored is not None:
                tell_tasks(self._spark, self._home, now.stored)
            rows = collected(frame, now.job, batch, now.levels)
        if share is not None:
            share.learn()
        return rows
