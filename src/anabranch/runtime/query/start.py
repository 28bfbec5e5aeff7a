"""Start a query on Spark, or go on with one that was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from anabranch.algebra.node import Node
from anabranch.errors import AnabranchError
from anabranch.kernels.plan.compile import PhysicalPlan, with_tables
from anabranch.kernels.plan.stage import with_one_promise
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.revision import Revision
from anabranch.model.time import Time
from anabranch.runtime.elements.elements import element_schema
from anabranch.runtime.query.checkpoint import Checkpoint, merge_inputs
from anabranch.runtime.query.driver_share import DriverShare, ShareLimits, driver_share
from anabranch.runtime.query.metrics import batch_metrics
from anabranch.runtime.query.options import ReplayChoice, RevisionResponse
from anabranch.runtime.query.quarantine import Quarantine, failed_windows
from anabranch.runtime.query.revising import note_sources, open_archives, past_of, start_reviser
from anabranch.runtime.query.run import Committed, Execution, Run
from anabranch.runtime.query.spark_replay import replay_on_spark
from anabranch.runtime.query.tables import store_tables
from anabranch.runtime.revisions.reviser import Reviser
from anabranch.runtime.sinks.sinks import Begin, ShardResult, Sink
from anabranch.runtime.sources.files.planned_batch import copy_names
from anabranch.runtime.sources.spec import FileSource, Promise
from anabranch.runtime.spark.file_source import read_files
from anabranch.runtime.spark.frame_source import FrameSource, as_files, send_frame
from anabranch.runtime.spark.session import driver_limits
from anabranch.runtime.spark.stages import chain_stages, observed, settle
from anabranch.runtime.store.control import Control, ControlFolder, source_clocks
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.phases import reached
from anabranch.runtime.store.state_store import KEEP
from anabranch.runtime.workers.file_task import FileJob
from anabranch.runtime.workers.job import QUERY, Delivery, Job, check_sources, seal


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


def start_query(
    spark: SparkSession,
    work: Work,
    make_sinks: Sequence[Callable[[Folder], Sink]],
    *,
    checkpoint: str | None,
    shards: int,
    trigger: str | None = None,
    available_now: bool = False,
    changed: bool = False,
    reshard: bool = False,
    revisions: RevisionResponse = "emit",
    replay: ReplayChoice = "auto",
) -> list[Run]:
    """Start a query of Spark, and with it as many queries as the plan has outputs.

    Args:
        spark: The session.
        work: What to compute.
        make_sinks: Where the results go, one for each output; a sink gets a folder for what it
            has to remember.
        checkpoint: The folder the query lives in; None for one that ends with it.
        shards: How many shards keyed stages have, if the query begins now, or with `reshard`.
        trigger: The time between two batches, such as `1 second`; None: as fast as it goes.
        available_now: Process what is there, then end.
        changed: The plan may be another one than before.
        reshard: A query that has another number of shards gets this one.
        revisions: What revisions of its sources lead to.
        replay: What is read again for them.
    """
    work = replace(work, revisions=revisions, replay=replay)
    streaming = tuple(frame.name for frame in work.frames if frame.frame.isStreaming)
    opened = Checkpoint(
        checkpoint,
        work.plan,
        shards,
        streaming,
        changed=changed,
        reshard=reshard,
        older=work.older,
    )
    work = replace(work, plan=opened.plan)
    try:
        sinks = [make(folder) for make, folder in zip(make_sinks, opened.outs, strict=True)]
        schemas = [work.plan.stages[index].schema for index in work.plan.outputs]
        each = zip(sinks, schemas, work.clocks, opened.layout.outputs, strict=True)
        for sink, schema, clock, home in each:
            fresh = opened.fresh or home.since >= opened.next_batch
            begin = Begin(schema, home.identity, clock, fresh, home.since, opened.path)
            sink.open(replace(begin, revisable=_is_revisable(work)))
        paths = store_tables(work.plan, work.tables, opened.tables)
        work = replace(work, plan=with_tables(work.plan, paths))
        files = _all_files(work, opened)
        deliveries = tuple(sink.delivery for sink in sinks)
        job = _job(work, opened, deliveries, files, outs=tuple(sink.out for sink in sinks))
        streams = [frame for frame in work.frames if frame.frame.isStreaming]
        past = past_of(opened, files, streams, work.revisions)
        reviser: Reviser | None = None
        if past is not None:
            job = replace(job, past=replace(past, swaps=work.swaps, lineage=work.replay == "RM"))
            archives = open_archives(opened, past, files, streams)
            note_sources(past, job, files, streams)
            run_large = partial(
                replay_on_spark,
                sources={source.name: source for source in files},
                parts=work.parts,
                run=partial(_run_planned, spark, work, opened.shards),
            )
            reviser = start_reviser(
                opened, job, archives, work.nodes, paths, work.replay, run_large
            )
        file_job = _file_job(work, files, job, opened, opened.control)
        results = _parcels(spark, work, file_job, job, opened)
        limits = ShareLimits(**driver_limits(spark))
        share = driver_share(job, file_job, work.nodes, f"{opened.spark}/offsets", limits)
        if not job.is_delivered_by_senders:
            results = observed(chain_stages(results, job))
        committed = [Committed() for _ in sinks]
        writer = results.writeStream.option("checkpointLocation", opened.spark)
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif trigger is not None:
            writer = writer.trigger(processingTime=trigger)
        quarantine = Quarantine(opened.path)
        writer = writer.foreachBatch(_committer(job, sinks, committed, quarantine, reviser, share))

        def close() -> None:
            if reviser is not None:
                reviser.close()
            for sink in sinks:
                sink.close()
            opened.close()

        in_files = {name: name not in streaming for name in work.plan.sources}
        several = [name for name, source in work.plan.sources.items() if source.copies]
        copies = partial(copy_names, Folder.at(opened.plans), several)
        clocks = source_clocks(work.plan)
        commands = ControlFolder(Folder.at(opened.control), merge_inputs(work.plan))
        control = Control(commands, in_files, copies, clocks)
        execution = Execution(spark, writer.start, close, control, reviser, opened.path)
        every = zip(sinks, schemas, committed, work.clocks, strict=True)
        return [
            Run(execution, sink, schema, done, quarantine, clock)
            for sink, schema, done, clock in every
        ]
    except BaseException:
        opened.close()
        raise


def _run_planned(
    spark: SparkSession,
    work: Work,
    shards: int,
    plan: PhysicalPlan,
    files: Sequence[FileSource],
    sinks: Sequence[Sink],
    checkpoint: str,
) -> None:
    """Run a plan of another query over what is planned, beside it."""
    own = Work(plan=plan, files=tuple(files), parts=work.parts, clocks=work.clocks)
    makers = [lambda _, sink=sink: sink for sink in sinks]
    run, *_ = start_query(
        spark, own, makers, checkpoint=checkpoint, shards=shards, available_now=True
    )
    run.await_end()


def _is_revisable(work: Work) -> bool:
    """Whether late rows of a source become revisions of the output."""
    late = [promise.late for promise in _promises(work).values()]
    return "revise" in late and work.revisions == "emit"


def stream_rows(
    spark: SparkSession, work: Work, *, checkpoint: str | None, shards: int
) -> tuple[DataFrame, Checkpoint]:
    """The elements of a query as a streaming DataFrame, and where its state is."""
    rows = _spark_schema(element_schema(work.plan.schema, ordered=True, clock=work.clocks[0]))
    opened = Checkpoint(checkpoint, work.plan, shards, older=work.older)
    # One shard tells of the stable point of all, so it has to know it.
    work = replace(work, plan=with_one_promise(opened.plan))
    try:
        paths = store_tables(work.plan, work.tables, opened.tables)
        work = replace(work, plan=with_tables(work.plan, paths))
        files = _all_files(work, opened)
        # Spark's query is not known yet, and somebody may start two of them.
        state = f"{opened.state}/{QUERY}"
        job = _job(work, opened, ("rows",), files, state=state)
        parcels = _parcels(spark, work, _file_job(work, files, job, opened, None), job, opened)
        return chain_stages(parcels, job, rows), opened
    except BaseException:
        opened.close()
        raise


def _spark_schema(schema: pa.Schema) -> StructType:
    """Spark's names for the types, with the notes at columns."""
    found = from_arrow_schema(schema)
    for column, noted in zip(found.fields, schema, strict=True):
        notes = noted.metadata or {}
        column.metadata = {key.decode(): note.decode() for key, note in notes.items()}
    return found


def _all_files(work: Work, opened: Checkpoint) -> tuple[FileSource, ...]:
    still = (frame for frame in work.frames if not frame.frame.isStreaming)
    return work.files + tuple(as_files(frame, opened.frames) for frame in still)


def _job(
    work: Work,
    opened: Checkpoint,
    deliveries: tuple[Delivery, ...],
    files: tuple[FileSource, ...],
    *,
    outs: tuple[str, ...] = ("",),
    state: str = "",
) -> Job:
    job = Job(
        plan=work.plan,
        shards=opened.shards,
        state=state or opened.state,
        promises=_promises(work),
        deliveries=deliveries,
        outs=outs,
        clocks=work.clocks,
        keep=work.keep,
        homes=opened.layout.stages,
        tasks=work.parts,
        unordered=frozenset(
            [source.name for source in files if not source.ordered]
            + [frame.name for frame in work.frames if frame.frame.isStreaming]
        ),
    )
    check_sources(job, list(job.promises))
    return job


def _promises(work: Work) -> dict[str, Promise]:
    promises = [each.promise for each in work.files] + [each.promise for each in work.frames]
    return {promise.source: promise for promise in promises}


def _file_job(
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
    )


def _parcels(
    spark: SparkSession, work: Work, file_job: FileJob | None, job: Job, opened: Checkpoint
) -> DataFrame:
    """What all sources send, in one DataFrame; commands come with what is in files."""
    fronts = [send_frame(frame, job) for frame in work.frames if frame.frame.isStreaming]
    if file_job is not None:
        fronts.append(read_files(spark, file_job, opened.path))
    return reduce(DataFrame.union, fronts)


def _lifetimes(job: Job, results: Sequence[ShardResult]) -> list[list[tuple[int, int]]]:
    """The lifetimes of what each output got in a batch; nothing where lineage is not noted."""
    if not job.notes_lineage:
        return []
    found: list[list[tuple[int, int]]] = [[] for _ in job.plan.outputs]
    for result in results:
        found[result.head.output] += result.head.lifetimes
    return found


def _committer(
    job: Job,
    sinks: Sequence[Sink],
    committed: Sequence[Committed],
    quarantine: Quarantine,
    reviser: Reviser | None,
    share: DriverShare | None = None,
) -> Callable[[DataFrame, int], None]:
    """Brings a batch to all sinks; one that has it already takes it again without harm."""
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
        try:
            results = ShardResult.of_table(computed(frame, batch))
            reached("collected", batch)
            ran = "tasks" if share is None else share.ran
            metrics = [batch_metrics(batch, results, n, ran=ran) for n in range(len(sinks))]
            quarantine.note(batch, [*failed_windows(metrics[0])])
            commands = metrics[0].control
            revisions: list[list[Revision]] = [[] for _ in sinks]
            if reviser is not None:
                revisions = reviser.revisions(batch, commands)
            for number, sink in enumerate(sinks):
                own = [result for result in results if result.head.output == number]
                stable = Time(min(result.head.stable for result in own))
                sink.commit(batch, stable, own, revisions[number])
            if reviser is not None:
                stables = [Time(each.stable) for each in metrics]
                reviser.committed(batch, commands, stables, _lifetimes(job, results))
            for total, metric in zip(committed, metrics, strict=True):
                total.add(metric)
            reached("committed", batch)
        except AnabranchError as problem:
            for total in committed:
                total.failure = problem
            raise

    return commit
