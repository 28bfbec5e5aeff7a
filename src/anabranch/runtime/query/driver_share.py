"""Small batches run in the driver, without a job of Spark.

Jobs of Spark cost about 60 ms before their first row: two rounds of Python tasks.
The planner knows about how many rows a batch has before anybody reads them. Where their work is
estimated to take less time than the job would, the driver reads the pieces and runs all shards of
all stages itself, in `foreachBatch`: the same functions that tasks call, over the same store, with
the same commit. So the result is the same, and a batch that is run again after a crash may run at
the other place.

Code of users stays in tasks, where it can do no harm to the driver, and so do batches of copies and
of DataFrames, which the driver cannot read by itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, final

import pyarrow as pa

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.kernels.columns.grouped import load_beside
from anabranch.runtime.elements.exchange import PARCELS, by_partition
from anabranch.runtime.plans.workers_can import expressions_of
from anabranch.runtime.query.metrics import RanIn
from anabranch.runtime.sources.files.planned_batch import PlannedBatch
from anabranch.runtime.sources.files.planned_parts import SourcePart, planned_parts
from anabranch.runtime.spark.warm_up import WorkerWarmUp
from anabranch.runtime.store.phases import reached
from anabranch.runtime.thresholds import take_thresholds
from anabranch.runtime.workers.file_task import FileJob
from anabranch.runtime.workers.job import Job
from anabranch.runtime.workers.stage_task import run_level

JOB_MS: Final = 60.0
"""What the jobs of a batch cost before its first row: measured, two cores, one exchange."""

DRIVER_MS_PER_ROW: Final = 0.0001
"""The first guess of what a row costs in the driver: a count per key and window, measured."""

_WAITING: Final = 4.0
"""A batch that took up to so many times its time of a core has waited for one: tasks would, too."""

_LEARN: Final = 0.2
"""How much of an estimate the newest batch makes up; more while there were few of them."""

WARM_UP: Final = 3
"""The first batches import modules and compile loops, and say nothing about the others."""

_FORGET: Final = 0.05
"""How fast the driver's estimate returns to the first guess while batches run in tasks."""

_TELLING_ROWS: Final = 1_000
"""Batches with fewer rows say nothing about the cost of a row."""

SIDE_BY_SIDE_FROM_ROWS: Final = 50_000
"""From this row count on, a batch in the driver is worth several threads."""

_WIDTH: Final = 64
"""The assumed bytes of a value whose type does not tell."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLimits:
    """What the driver takes on at the most; `rows` 0: nothing.

    Attributes:
        rows: The rows of a batch.
        bytes: About so many bytes of rows in memory.
        milliseconds: The estimated time of a batch.
    """

    rows: int
    bytes: int
    milliseconds: int


@final
@dataclass(slots=True)
class ShareCosts:
    """What rows cost at either place, learned from the batches of a run.

    A batch goes to the driver if that is estimated to end first: `r * d <= JOB_MS + r * t`, with r
    rows, d and t milliseconds per row. Example: d = 0.0001 and t = 0 give 600,000 rows; a query
    with an expensive join, d = 0.002, goes to tasks from 30,000 rows on. While no batch has gone to
    tasks, t is the time of cores that the driver takes, shared among so many `cores`; with 0 of
    them, nothing. The driver's threads may have kept several cores busy: a row that takes 0.0001 ms
    there, and 0.0002 of cores, takes 0.0001 in two tasks, which then gain nothing. The
    first `cold` batches in the driver and `cold_tasks` in tasks do not count; so many were
    `measured` in the driver. Costs that are `inherited` were measured with another plan of the
    query: the first batch that counts, at either place, changes both in proportion. Example: d was
    0.005 and t 0.003; a batch in the driver says that d is 0.001, so t is taken to be 0.0006.
    """

    driver: float = DRIVER_MS_PER_ROW
    busy: float = DRIVER_MS_PER_ROW
    tasks: float = 0.0
    cold: int = WARM_UP
    cold_tasks: int = 0
    cores: int = 0
    measured: int = 0
    inherited: bool = False

    def for_another_plan(self, cold: int) -> ShareCosts:
        """What is assumed of a plan that takes the place of this one, until it is measured."""
        return replace(self, cold=cold, measured=0, inherited=True)

    def learn(self, ran: RanIn, rows: int, milliseconds: float, busy: float | None = None) -> None:
        """Take in what a batch has cost; in the driver, `busy` milliseconds of cores."""
        if ran == "driver" and self.cold:
            self.cold -= 1
            return
        if rows < _TELLING_ROWS:
            return
        if self.inherited and not (ran == "tasks" and self.cold_tasks):
            self._take_over(ran, rows, milliseconds)
        if ran == "driver":
            # The first measurement takes the place of the guess.
            self.measured += 1
            weight = max(_LEARN, 1 / self.measured)
            self.driver += weight * (milliseconds / rows - self.driver)
            of_cores = milliseconds if busy is None else busy
            self.busy += weight * (of_cores / rows - self.busy)
            return
        if self.cold_tasks:
            self.cold_tasks -= 1
            return
        if self.cores:
            self.tasks, self.cores = self.busy / self.cores, 0
        work = max(0.0, milliseconds - JOB_MS)
        self.tasks += _LEARN * (work / rows - self.tasks)
        # One slow batch, say while loops were compiled, shall not keep the driver out for good.
        self.driver += _FORGET * (DRIVER_MS_PER_ROW - self.driver)

    def _take_over(self, ran: RanIn, rows: int, milliseconds: float) -> None:
        """Change what was measured with another plan by what a batch of this one has cost."""
        self.inherited = False
        known = self.driver if ran == "driver" else self.tasks
        if known:
            work = milliseconds if ran == "driver" else max(0.0, milliseconds - JOB_MS)
            factor = work / rows / known
            self.driver, self.tasks = self.driver * factor, self.tasks * factor
            self.busy *= factor

    def prefers_driver(self, rows: int, limits: ShareLimits) -> bool:
        """Whether the driver is estimated to be faster, within its limits."""
        return self.is_possible(rows, limits) and self.loss(rows) <= 0

    def loss(self, rows: int) -> float:
        """The milliseconds that the driver takes longer than tasks that have their workers."""
        tasks = self.busy / self.cores if self.cores else self.tasks
        return rows * self.driver - (JOB_MS + rows * tasks)

    def is_possible(self, rows: int, limits: ShareLimits) -> bool:
        """Whether the driver is estimated to be done within its limits."""
        return rows * self.driver <= limits.milliseconds


@final
@dataclass(slots=True)
class DriverShare:
    """The driver's share of the batches of a query.

    Attributes:
        job: The query.
        files: Its sources.
        limits: What the driver takes on at the most.
        row_bytes: About how many bytes a row has in memory.
        costs: What rows cost.
        workers: Who starts Python workers before a batch goes to tasks; None: nobody.
        threads: How many parts of a batch are read, and shards computed, side by side.
        ran: Where the last batch ran.
    """

    job: Job
    files: FileJob
    limits: ShareLimits
    row_bytes: int
    costs: ShareCosts = field(default_factory=ShareCosts)
    workers: WorkerWarmUp | None = None
    threads: int = 1
    ran: RanIn = "tasks"
    _rows: int = 0
    _began: float = 0.0
    _began_cpu: float = 0.0

    def run(self, batch: int, entries: Mapping[int, PlannedBatch]) -> pa.Table | None:
        """The results of a batch that is small enough; None for one that tasks shall run."""
        self._began, self._began_cpu = time.perf_counter(), time.process_time()
        self.ran, self._rows = "tasks", 0
        counts = [entry.rows for entry in entries.values()]
        if not entries or None in counts:
            return None
        self._rows = rows = sum(count for count in counts if count is not None)
        if rows > self.limits.rows or rows * self.row_bytes > self.limits.bytes:
            return None
        if not self.costs.prefers_driver(rows, self.limits) and not self._waits(rows):
            return None
        load_beside()
        take_thresholds()
        self.ran = "driver"
        parts = planned_parts(entries, self.files.sources)
        parcels = self._sent(parts, batch)
        levels = self.job.levels()
        for level in levels:
            parcels = self._stepped(level, batch, parcels)
            if level == levels[0]:
                reached("read", batch)
        return pa.Table.from_batches(parcels, PARCELS)

    def _sent(self, parts: Sequence[SourcePart], batch: int) -> Iterable[pa.RecordBatch]:
        """What the parts of a batch send, in their order.

        Reading, hashing and adding up need no interpreter: two threads take little more than half
        the time. Parts know nothing of each other, as in tasks.
        """

        def read(part: SourcePart) -> list[pa.RecordBatch]:
            return list(self.files.send(part, batch, self.job))

        if not self._is_shared_out:
            return chain.from_iterable(map(read, parts))
        with ThreadPoolExecutor(self.threads, "anabranch-read") as readers:
            return chain.from_iterable(list(readers.map(read, parts)))

    def _stepped(
        self, level: Sequence[int], batch: int, arriving: Iterable[pa.RecordBatch]
    ) -> Iterable[pa.RecordBatch]:
        """What the shards of a level of stages give for what arrives; like tasks, in partitions."""
        shards = range(self.job.most_shards(level))
        width = min(self.threads, self.job.width(level)) if self._is_shared_out else 1
        if width == 1:
            return list(run_level(self.job, level, shards, batch, iter(arriving)))
        waiting: list[list[pa.RecordBatch]] = [[] for _ in range(width)]
        for rows in arriving:
            for partition, own in by_partition(rows, width):
                waiting[partition].append(own)

        def step(partition: int) -> list[pa.RecordBatch]:
            own = iter(waiting[partition])
            return list(run_level(self.job, level, shards[partition::width], batch, own))

        with ThreadPoolExecutor(width, "anabranch-step") as workers:
            return chain.from_iterable(list(workers.map(step, range(width))))

    @property
    def _is_shared_out(self) -> bool:
        """Whether the batch is worth several threads."""
        return self.threads > 1 and self._rows >= SIDE_BY_SIDE_FROM_ROWS

    def learn(self) -> None:
        """Note what the batch has cost, which has just been computed."""
        milliseconds = (time.perf_counter() - self._began) * 1000
        busy = (time.process_time() - self._began_cpu) * 1000
        if self.ran == "driver":
            milliseconds = min(milliseconds, max(busy, milliseconds / _WAITING))
        if self.ran == "tasks" and self.workers is not None:
            self.workers.used()
        self.costs.learn(self.ran, self._rows, milliseconds, busy)

    def _waits(self, rows: int) -> bool:
        """Whether the driver does one more batch, because tasks would wait for their workers."""
        if self.workers is None or self.workers.is_ready:
            return False
        is_possible = self.costs.is_possible(rows, self.limits)
        if self.workers.is_worth_a_start(self.costs.loss(rows)) or not is_possible:
            self.workers.begin()
        return is_possible


def driver_share(
    job: Job,
    files: FileJob | None,
    nodes: Sequence[Node],
    limits: ShareLimits,
    costs: ShareCosts | None = None,
    workers: WorkerWarmUp | None = None,
    threads: int = 1,
) -> DriverShare | None:
    """The driver's share of a query; None for one whose batches all go to tasks.

    `costs` are those of the plan that ran before, `workers` starts what tasks need, and the driver
    shares out the work of a batch to so many `threads`.
    """
    if limits.rows == 0 or files is None or calls_users(nodes):
        return None
    widths = [
        sum(_width(job.plan.sources[source.name].schema.field(name).type) for name in columns)
        for source in files.sources
        for columns in [job.columns(source.name)]
    ]
    # Beside its payload a row has a start, an end and a new end.
    row_bytes = max(widths, default=0) + 24
    return DriverShare(job, files, limits, row_bytes, costs or ShareCosts(), workers, threads)


def calls_users(nodes: Iterable[Node]) -> bool:
    """Whether plans call code of users."""
    every = [each for node in nodes for each in node.walk()]
    return any(
        isinstance(each, ApplyOperator) or any(one.functions for one in expressions_of(each))
        for each in every
    )


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return _WIDTH
