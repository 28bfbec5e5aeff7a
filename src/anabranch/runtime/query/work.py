"""What a query on Spark computes, from what, and how workers get to know it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import final

from pyspark.sql import DataFrame, SparkSession

from anabranch.algebra.node import Node
from anabranch.kernels.plan.compile import PhysicalPlan
from anabranch.model.clock import INTEGERS, Clock
from anabranch.optimizer.origins import telling_columns
from anabranch.optimizer.statistics import UNKNOWN, PlanStatistics
from anabranch.runtime.query.checkpoint import Checkpoint, merge_inputs
from anabranch.runtime.query.options import ReplayChoice, RevisionResponse
from anabranch.runtime.revisions.estimator import RevisionEstimator
from anabranch.runtime.sources.files.batch_sizing import FIXED, SizeLimits
from anabranch.runtime.sources.files.log_records import LogProperties
from anabranch.runtime.sources.spec import FileSource, Promise
from anabranch.runtime.spark.file_source import read_files
from anabranch.runtime.spark.frame_source import FrameSource, as_files, send_frame
from anabranch.runtime.store.state_store import KEEP
from anabranch.runtime.workers.file_task import FileJob
from anabranch.runtime.workers.job import Delivery, HandedOver, Job, check_sources, seal


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a query computes, and from what.

    Attributes:
        plan: The stages.
        files: The sources in files.
        frames: The sources that are DataFrames.
        tables: The relations in files that are looked up in.
        parts: How many tasks run at once: into so many parts a batch of a file source is cut.
        least: The rows for which a part pays.
        clocks: How the results of each output count time.
        nodes: The logical plans that the stages were made from, one per output.
        swaps: Whether corrections of sources change the state, so that it is exchanged.
        keep: How many versions of the state stay.
        older: The stages of a query that began before its state told its shard.
        revisions: What revisions of its sources lead to.
        replay: What is read again for them.
        estimator: Estimates corrections whose input is gone.
        priced: How its sources were expected to be when the plan was chosen.
        properties: What is known of each output; nothing where there are none.
        handed_over: What outputs take over from another plan, in one batch.
        sizes: The bounds within which the size of batches adapts.
        meant: What each output means at all times, where that is more than the plan computes now:
            the past of a query that has changed is corrected by it.
    """

    plan: PhysicalPlan
    files: tuple[FileSource, ...] = ()
    frames: tuple[FrameSource, ...] = ()
    tables: Mapping[str, FileSource] = field(default_factory=dict)
    parts: int = 2
    least: int = 1
    clocks: tuple[Clock, ...] = (INTEGERS,)
    nodes: tuple[Node, ...] = ()
    swaps: bool = False
    keep: int = KEEP
    older: Callable[[], PhysicalPlan] | None = None
    revisions: RevisionResponse = "emit"
    replay: ReplayChoice = "auto"
    estimator: RevisionEstimator | None = None
    priced: PlanStatistics = UNKNOWN
    properties: tuple[LogProperties | None, ...] = ()
    handed_over: tuple[HandedOver, ...] = ()
    meant: tuple[Node, ...] = ()
    sizes: SizeLimits = FIXED

    @property
    def promises(self) -> dict[str, Promise]:
        """What its sources promise, by name."""
        promises = [each.promise for each in self.files] + [each.promise for each in self.frames]
        return {promise.source: promise for promise in promises}

    @property
    def weakens(self) -> bool:
        """Whether a merge in it may go over to a weaker case, so that less holds of the output."""
        return any(each.weakens for each in self.files)

    @property
    def is_revisable(self) -> bool:
        """Whether late rows of a source become revisions of the output."""
        late = [promise.late for promise in self.promises.values()]
        return "revise" in late and self.revisions == "emit"


def all_files(work: Work, opened: Checkpoint) -> tuple[FileSource, ...]:
    """The sources in files, with DataFrames that do not stream, which are written down."""
    still = (frame for frame in work.frames if not frame.frame.isStreaming)
    return work.files + tuple(as_files(frame, opened.frames) for frame in still)


def job_of(
    work: Work,
    opened: Checkpoint,
    deliveries: tuple[Delivery, ...],
    files: tuple[FileSource, ...],
    *,
    outs: tuple[str, ...] = ("",),
    state: str = "",
) -> Job:
    """What workers have to know; `state` is where the state is, if not in the checkpoint."""
    job = Job(
        plan=work.plan,
        shards=opened.shards,
        state=state or opened.state,
        promises=work.promises,
        deliveries=deliveries,
        outs=outs,
        clocks=work.clocks,
        keep=work.keep,
        homes=opened.layout.stages,
        tasks=work.parts,
        handed_over=work.handed_over,
        unordered=frozenset(
            [source.name for source in files if not source.ordered]
            + [frame.name for frame in work.frames if frame.frame.isStreaming]
        ),
        sampled=telling_columns(*work.nodes),
        nodes=work.nodes,
    )
    check_sources(job, list(job.promises))
    return job


def file_job_of(
    work: Work,
    files: tuple[FileSource, ...],
    job: Job,
    opened: Checkpoint,
    control: str | None,
) -> FileJob | None:
    """What reads all sources in files, and brings commands; None where there is nothing of it."""
    in_files = {source.name for source in files}
    heartbeats = {
        name: int(promise.heartbeat)
        for name, promise in job.promises.items()
        if promise.heartbeat is not None
    }
    if not files and not heartbeats and control is None:
        return None
    return FileJob(
        sources=files,
        plan_folder=opened.plans,
        parts=work.parts,
        least=work.least,
        job=seal(job),
        heartbeats=heartbeats,
        control=control,
        others=tuple(name for name in job.promises if name not in in_files),
        inputs=merge_inputs(job.plan),
        revisions=None if job.past is None else job.past.folder,
        sizes=work.sizes,
    )


def parcels_of(
    spark: SparkSession, work: Work, file_job: FileJob | None, job: Job, opened: Checkpoint
) -> DataFrame:
    """What all sources send, in one DataFrame; commands come with what is in files."""
    streams = [frame for frame in work.frames if frame.frame.isStreaming]
    fronts = [send_frame(frame, job, opened.path) for frame in streams]
    if file_job is not None:
        fronts.append(read_files(spark, file_job, opened.path))
    return reduce(DataFrame.union, fronts)
