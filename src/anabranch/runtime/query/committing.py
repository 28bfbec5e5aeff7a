"""How a batch becomes part of all outputs of a query."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import pyarrow as pa

from anabranch.errors import AnabranchError
from anabranch.model.clock import Clock
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.measure.measurements import Measurements
from anabranch.runtime.query.driver_share import DriverShare
from anabranch.runtime.query.metrics import BatchMetrics, RunTotals, batch_metrics
from anabranch.runtime.query.quarantine import Quarantine, failed_windows
from anabranch.runtime.query.switching import Switcher
from anabranch.runtime.revisions.copied_revisions import CopiedRevisions
from anabranch.runtime.revisions.reviser import Reviser
from anabranch.runtime.sinks.sinks import ShardResult, Sink
from anabranch.runtime.spark.stages import settle
from anabranch.runtime.store.phases import reached
from anabranch.runtime.workers.job import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@final
class Committed:
    """What the driver knows of the batches it has committed; shared with Spark's callback."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.lock = threading.Lock()
        self.metrics: list[BatchMetrics] = []
        self.stable: Time = BEGINNING
        self.failure: AnabranchError | None = None
        self.totals = RunTotals()

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


def committer(
    job: Job,
    outputs: Sequence[Output],
    quarantine: Quarantine,
    reviser: Reviser | CopiedRevisions | None,
    switcher: Switcher,
    share: DriverShare | None = None,
    measurements: Measurements | None = None,
) -> Callable[[DataFrame, int], None]:
    """Brings a batch to all sinks; one that has it already takes it again without harm.

    A batch that begins with another plan is given up before anything of it is done.
    """
    only_settle = job.is_delivered_by_senders

    def computed(frame: DataFrame, batch: int) -> pa.Table:
        """What all shards give: computed right here, or by a job of Spark."""
        rows = None if share is None else share.run(batch)
        if rows is None:
            rows = frame.toArrow()
            rows = settle(rows, job, batch) if only_settle else rows
        if share is not None:
            share.learn()
        return rows

    def commit(frame: DataFrame, batch: int) -> None:
        switcher.before(batch)
        try:
            results = ShardResult.of_table(computed(frame, batch))
            reached("collected", batch)
            ran = "tasks" if share is None else share.ran
            metrics = [batch_metrics(batch, results, n, ran=ran) for n in range(len(outputs))]
            quarantine.note(batch, [*failed_windows(metrics[0])])
            commands = metrics[0].control
            revisions: list[list[Revision]] = [[] for _ in outputs]
            if reviser is not None:
                revisions = reviser.revisions(batch, commands)
            for number, output in enumerate(outputs):
                own = [result for result in results if result.head.output == number]
                stable = Time(min(result.head.stable for result in own))
                output.sink.commit(batch, stable, own, revisions[number])
            if reviser is not None:
                stables = [Time(each.stable) for each in metrics]
                reviser.committed(batch, commands, stables, _lifetimes(job, results))
            for output, metric in zip(outputs, metrics, strict=True):
                output.committed.add(metric)
            reached("committed", batch)
            if measurements is not None:
                measurements.add(batch, [each for one in results for each in one.head.counters])
            switcher.after(batch, commands, [Time(each.stable) for each in metrics])
        except AnabranchError as problem:
            for output in outputs:
                output.committed.failure = problem
            raise

    return commit
