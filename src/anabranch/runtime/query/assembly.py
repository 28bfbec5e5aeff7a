"""A query on Spark as it is put together: when it begins, and whenever its plan changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, final

from anabranch.kernels.plan.compile import PhysicalPlan, with_tables
from anabranch.model.clock import Clock
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.measure.measurements import Measurements
from anabranch.runtime.query.checkpoint import Checkpoint, merge_inputs
from anabranch.runtime.query.committing import Committed, Committer, Output, PlanOfBatches
from anabranch.runtime.query.driver_share import ShareCosts, ShareLimits, driver_share
from anabranch.runtime.query.execution import Execution
from anabranch.runtime.query.experience import experience_of
from anabranch.runtime.query.quarantine import Quarantine
from anabranch.runtime.query.revising import note_sources, open_archives, past_of, start_reviser
from anabranch.runtime.query.run import Run
from anabranch.runtime.query.spark_replay import replay_on_spark
from anabranch.runtime.query.switching import NextPlan, Switcher
from anabranch.runtime.query.tables import store_tables
from anabranch.runtime.query.work import Work, all_files, file_job_of, job_of, parcels_of
from anabranch.runtime.revisions.copied_revisions import CopiedRevisions, merged_copies
from anabranch.runtime.revisions.revised_query import CATCH_UP_ROUNDS
from anabranch.runtime.revisions.reviser import Reviser
from anabranch.runtime.sinks.sinks import Begin, Sink
from anabranch.runtime.sources.files.planned_batch import copy_names
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.spark.batch_tasks import batch_tasks
from anabranch.runtime.spark.frame_source import sent_columns
from anabranch.runtime.spark.job_in_force import can_tell, clear_jobs, store_job, tellable
from anabranch.runtime.spark.session import (
    REPLAY_POOL,
    catch_up_rounds,
    driver_limits,
    in_pool,
    is_local,
    plain_jobs,
)
from anabranch.runtime.spark.stages import chain_stages, observed
from anabranch.runtime.store.control import Control, ControlFolder, source_clocks
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.freed_memory import give_back_memory
from anabranch.runtime.store.layout import Home
from anabranch.runtime.store.seeding import progress_before
from anabranch.runtime.store.state_store import close_runs
from anabranch.runtime.workers.batch_plan import BatchPlan, batch_plan
from anabranch.runtime.workers.file_task import FileJob
from anabranch.runtime.workers.job import Job, seal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@final
@dataclass(frozen=True, slots=True)
class FrameShape:
    """What of a plan is fixed in the DataFrame that Spark's query was started with.

    Attributes:
        files: Who plans and reads the sources in files, apart from what they are.
        sources: What is read from files.
        heartbeats: Which sources are told that time passes.
        columns: The payload columns of each source that is a DataFrame.
        widths: The number of tasks of each level of stages; none where batches are plain jobs,
            which need no DataFrame: Spark would plan its exchanges in every batch for nothing.
    """

    files: FileJob | None
    sources: Mapping[str, FileSource]
    heartbeats: Mapping[str, int]
    columns: Mapping[str, tuple[str, ...]]
    widths: tuple[int, ...]

    @staticmethod
    def of(work: Work, job: Job, files: FileJob | None, *, in_plain_jobs: bool) -> FrameShape:
        """The DataFrame for a plan."""
        streams = [frame for frame in work.frames if frame.frame.isStreaming]
        is_bare = in_plain_jobs or job.is_delivered_by_senders
        levels = [] if is_bare else job.levels()
        return FrameShape(
            files=None
            if files is None
            else replace(files, job=b"", sources=(), others=(), heartbeats={}),
            sources={} if files is None else {each.name: each for each in files.sources},
            heartbeats={} if files is None else files.heartbeats,
            columns={frame.name: sent_columns(frame, job) for frame in streams},
            widths=tuple(map(job.width, levels)),
        )

    def serves(self, other: FrameShape) -> bool:
        """Whether a plan with another shape can be computed from this DataFrame.

        It needs no further sources or columns, and no level wants more tasks. Levels that it has
        more than this are put behind the DataFrame of each batch.
        """
        return (
            self.files == other.files
            and other.sources.items() <= self.sources.items()
            and other.heartbeats.items() <= self.heartbeats.items()
            and self.columns.keys() == other.columns.keys()
            and all(set(other.columns[name]) <= set(self.columns[name]) for name in self.columns)
            and all(own >= wanted for own, wanted in zip(self.widths, other.widths))
        )


@final
@dataclass(frozen=True, slots=True)
class _Planned:
    """A plan with all that workers have to know of it; `tables` are the files of its relations."""

    work: Work
    outputs: tuple[Output, ...]
    job: Job
    files: tuple[FileSource, ...]
    file_job: FileJob | None
    tables: Mapping[str, str]


@final
class Assembly:
    """The parts of a query on Spark that are made anew when its plan changes.

    Attributes:
        opened: Its checkpoint.
        work: What it computes at present.
        job: The same, as workers know it.
        outputs: Where its results go.
        reviser: Who corrects its past, if somebody does.
        switcher: Who exchanges its plan.
        measurements: What is measured of it, whatever plan it has.
    """

    work: Work
    job: Job
    _frame: FrameShape
    _can_tell: bool

    def __init__(
        self,
        spark: SparkSession,
        opened: Checkpoint,
        *,
        trigger: str | None = None,
        available_now: bool = False,
    ) -> None:
        """Nothing is put together yet."""
        self.spark = spark
        self.opened = opened
        self.outputs: tuple[Output, ...] = ()
        self.reviser: Reviser | None = None
        self.switcher: Switcher = Switcher()
        self.switcher.adopt = self.adopted
        self.quarantine: Quarantine = Quarantine(opened.path)
        begun = opened.next_batch
        if str(begun) not in Folder.at(f"{opened.spark}/offsets").names():
            begun -= 1
        self._committer = Committer(spark, opened.path, self.quarantine, self.switcher, begun)
        self.measurements: Measurements | None = None
        self._limits = ShareLimits(**driver_limits(spark))
        self._experience = experience_of(spark)
        self._trigger = trigger
        self._available_now = available_now
        self._resumed: dict[Output, Time] = {}

    def open_output(self, work: Work, number: int, sink: Sink, home: Home | None = None) -> Output:
        """Get a sink ready for an output of the plan; one that is not in force yet has a `home`."""
        opened = self.opened
        home = home or opened.layout.outputs[number]
        schema = work.plan.stages[work.plan.outputs[number]].schema
        clock = work.clocks[number]
        fresh = opened.fresh or home.since >= opened.next_batch
        begin = Begin(schema, home.identity, clock, fresh, home.since, opened.path)
        known = work.properties[number] if work.properties else None
        if fresh and work.weakens:
            # Its readers would have to stop when copies join that promise less. A log that is there
            # already keeps what its readers may rely on, as long as no such copy joins.
            known = None
        others = tuple(each.identity for each in opened.layout.outputs)
        begin = replace(begin, revisable=work.is_revisable, properties=known, others=others)
        sink.open(begin)
        return Output(sink=sink, schema=schema, clock=clock, committed=Committed())

    def resumed_stable(self, output: Output) -> Time:
        """How far an output was settled when the query was taken up; `BEGINNING` for a new one."""
        opened, work = self.opened, self.work
        if opened.fresh or output not in self.outputs:
            return BEGINNING
        if output not in self._resumed:
            state, before = Folder.at(opened.state), opened.next_batch
            known = progress_before(work.plan, opened.layout, state, before, self.job.shards_of)
            stage = work.plan.stages[work.plan.outputs[self.outputs.index(output)]]
            self._resumed[output] = Time(known.stables[stage.name])
        return self._resumed[output]

    def assembled(self, work: Work, outputs: Sequence[Output]) -> Callable[[], StreamingQuery]:
        """Put the query together; what is returned starts it, and can be called again."""
        opened, planned = self.opened, self._planned(work, outputs)
        self._frame = self._shape(planned)
        clear_jobs(opened.path)
        self._compute_by(planned)
        self._can_tell = can_tell(self.spark)
        job = planned.job
        results = parcels_of(self.spark, planned.work, planned.file_job, job, opened)
        if self._frame.widths:
            results = observed(chain_stages(results, job, home=opened.path))
        writer = results.writeStream.option("checkpointLocation", opened.spark)
        if self._available_now:
            writer = writer.trigger(availableNow=True)
        elif self._trigger is not None:
            writer = writer.trigger(processingTime=self._trigger)
        writer = writer.foreachBatch(self._committer.commit)

        def start() -> StreamingQuery:
            with tellable(results.sparkSession):
                return writer.start()

        return start

    def adopted(self, new: NextPlan) -> bool:
        """Go on with another plan, which is in force already, over the same DataFrame of Spark.

        False where that cannot serve it. Called when a batch begins, by the thread that does it.
        """
        planned = self._planned(new.work, new.outputs)
        shape = self._shape(planned)
        if not self._frame.serves(shape) or not self._can_tell:
            return False
        self._close_before(new)
        now = self._committer.now
        sealed = seal(planned.job) if planned.file_job is None else planned.file_job.job
        # A task of the last batch may still be running, though nobody waits for it.
        keep = [] if now.stored is None else [now.stored]
        keep += [] if now.tasks is None else [now.tasks.told.stored]
        stored = store_job(self.opened.path, sealed, keep=keep)
        self._compute_by(planned, stored, None if now.share is None else now.share.costs)
        return True

    def _shape(self, planned: _Planned) -> FrameShape:
        is_planned = self._batch_plan(planned) is not None
        in_plain_jobs = is_planned and plain_jobs(self.spark)
        return FrameShape.of(
            planned.work, planned.job, planned.file_job, in_plain_jobs=in_plain_jobs
        )

    def _batch_plan(self, planned: _Planned) -> BatchPlan | None:
        return batch_plan(planned.job, planned.file_job, f"{self.opened.spark}/offsets")

    def _planned(self, work: Work, outputs: Sequence[Output]) -> _Planned:
        """What workers and the planner of files have to know of a plan."""
        opened = self.opened
        paths = store_tables(work.plan, work.tables, opened.tables)
        work = replace(work, plan=with_tables(work.plan, paths))
        files = all_files(work, opened)
        sinks = [output.sink for output in outputs]
        deliveries = tuple(sink.delivery for sink in sinks)
        job = job_of(work, opened, deliveries, files, outs=tuple(sink.out for sink in sinks))
        streams = [frame for frame in work.frames if frame.frame.isStreaming]
        past = past_of(opened, files, streams, work.revisions)
        if past is not None:
            job = replace(job, past=replace(past, swaps=work.swaps, lineage=work.replay == "RM"))
        file_job = file_job_of(work, files, job, opened, opened.control)
        return _Planned(work, tuple(outputs), job, files, file_job, paths)

    def _compute_by(
        self, planned: _Planned, stored: str | None = None, before: ShareCosts | None = None
    ) -> None:
        """From now on batches are computed by this plan; `before` they had such costs."""
        work, job, outputs = planned.work, planned.job, planned.outputs
        for output, known in zip(outputs, work.properties):
            # A running query may have got another plan, which promises less.
            output.sink.rely_on(known)
        reviser = self._reviser(planned)
        costs = self._experience.costs_of(job.plan, before)
        plan = self._batch_plan(planned)
        files = None if plan is None else plan.files
        sinks = [output.sink for output in outputs]
        self._committer.now = PlanOfBatches(
            job=job,
            outputs=outputs,
            levels=len(self._frame.widths),
            reviser=reviser or self._copied(work, planned.files, sinks),
            plan=plan,
            share=driver_share(
                job,
                files,
                work.nodes,
                self._limits,
                costs,
                self._experience.workers,
                # On a cluster the cores of the driver's machine are not those of Spark.
                self._experience.cores if is_local(self.spark) else 1,
            ),
            tasks=batch_tasks(self.spark, job, plan, self.opened.path, stored),
            measurements=self._measured(work),
            stored=stored,
        )
        self.work, self.job, self.outputs, self.reviser = work, job, outputs, reviser

    def _reviser(self, planned: _Planned) -> Reviser | None:
        """Who corrects the past, where sources may be revised."""
        opened, work, job, files = self.opened, planned.work, planned.job, planned.files
        if job.past is None:
            return None
        streams = [frame for frame in work.frames if frame.frame.isStreaming]
        archives = open_archives(opened, job.past, files, streams)
        note_sources(job.past, job, files, streams)
        run_large = partial(
            replay_on_spark,
            sources={source.name: source for source in files},
            parts=work.parts,
            run=partial(_run_planned, self.spark, work, opened.shards),
        )
        return start_reviser(
            opened,
            job,
            archives,
            work.meant or work.nodes,
            planned.tables,
            work.replay,
            run_large,
            work.estimator,
            rounds=catch_up_rounds(self.spark, CATCH_UP_ROUNDS),
        )

    def _copied(
        self, work: Work, files: Sequence[FileSource], sinks: Sequence[Sink]
    ) -> CopiedRevisions | None:
        """The revisions of copies that the query merges, where its output has room for them."""
        merge = merged_copies(work.nodes)
        if merge is None or not all(sink.carries_revisions for sink in sinks):
            return None
        (source,) = files
        control = ControlFolder(Folder.at(self.opened.control), merge_inputs(work.plan))
        return CopiedRevisions(source.path, control, merge.policy.divergence)

    def _measured(self, work: Work) -> Measurements:
        """Measure what runs from now on."""
        path = self.opened.path
        if self.measurements is None:
            self.measurements = Measurements(path, work.plan, work.priced)
        else:
            self.measurements.replan(work.plan, work.priced)
        return self.measurements

    def changed(self, new: NextPlan) -> Callable[[], StreamingQuery]:
        """The same with another plan, which is in force already."""
        self._close_before(new)
        return self.assembled(new.work, new.outputs)

    def _close_before(self, new: NextPlan) -> None:
        """Let go of what another plan does not need."""
        if self.reviser is not None:
            self.reviser.close()
        for output in self.outputs:
            if output not in new.outputs:
                output.sink.close()

    @property
    def control(self) -> Control:
        """How to tell the query something."""
        plan, opened = self.work.plan, self.opened
        streaming = [frame.name for frame in self.work.frames if frame.frame.isStreaming]
        in_files = {name: name not in streaming for name in plan.sources}
        several = [name for name, source in plan.sources.items() if source.copies]
        copies = partial(copy_names, Folder.at(opened.plans), several)
        folder = ControlFolder(Folder.at(opened.control), merge_inputs(plan))
        return Control(folder, in_files, copies, source_clocks(plan))

    def run_beside(
        self,
        clocks: Sequence[Clock],
        plan: PhysicalPlan,
        files: Sequence[FileSource],
        sinks: Sequence[Sink],
        checkpoint: str,
    ) -> None:
        """Run another plan with one shard over what is planned, until it ends."""
        work = replace(self.work, clocks=tuple(clocks))
        _run_planned(self.spark, work, 1, plan, files, sinks, checkpoint)

    def close(self) -> None:
        """Let go of everything; others may have the checkpoint."""
        if self.measurements is not None:
            self.measurements.close()
        if self.reviser is not None:
            self.reviser.close()
        for output in self.outputs:
            output.sink.close()
        self.opened.close()
        if close_runs(Folder.at(self.opened.state).path):
            # Batches ran in this process, which may have others to run for long.
            give_back_memory()


def _run_planned(
    spark: SparkSession,
    work: Work,
    shards: int,
    plan: PhysicalPlan,
    files: Sequence[FileSource],
    sinks: Sequence[Sink],
    checkpoint: str,
) -> None:
    """Run a plan of another query over what is planned, beside it, until it ends."""
    own = Work(plan=plan, files=tuple(files), parts=work.parts, clocks=work.clocks)
    opened = Checkpoint(checkpoint, plan, shards)
    try:
        assembly = Assembly(spark, opened, available_now=True)
        outputs = [assembly.open_output(own, n, sink) for n, sink in enumerate(sinks)]
        with in_pool(spark, REPLAY_POOL):
            execution = Execution(spark, assembly.assembled(own, outputs), assembly)
    except BaseException:
        opened.close()
        raise
    Run(execution, outputs[0]).await_end()
