"""Start a query on Spark, or go on with one that was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from anabranch.kernels.plan.compile import with_tables
from anabranch.kernels.plan.stage import with_one_promise
from anabranch.runtime.elements.elements import element_schema
from anabranch.runtime.query.assembly import Assembly
from anabranch.runtime.query.checkpoint import Checkpoint
from anabranch.runtime.query.execution import Execution
from anabranch.runtime.query.options import ReplayChoice, RevisionResponse
from anabranch.runtime.query.run import Run
from anabranch.runtime.query.switching import work_in_force
from anabranch.runtime.query.tables import store_tables
from anabranch.runtime.query.work import Work, all_files, file_job_of, job_of, parcels_of
from anabranch.runtime.revisions.estimator import RevisionEstimator
from anabranch.runtime.sinks.sinks import Sink
from anabranch.runtime.spark.stages import chain_stages
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.workers.job import QUERY

__all__ = ["Work", "start_query", "stream_rows"]


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
    estimator: RevisionEstimator | None = None,
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
        estimator: Estimates those whose input is gone.
    """
    work = replace(work, revisions=revisions, replay=replay, estimator=estimator)
    work = work_in_force(checkpoint, work)
    streaming = tuple(frame.name for frame in work.frames if frame.frame.isStreaming)
    opened = Checkpoint(
        checkpoint,
        work.plan,
        shards,
        streaming,
        changed=changed,
        reshard=reshard,
        older=work.older,
        priced=work.priced,
    )
    work = replace(work, plan=opened.plan)
    try:
        sinks = [make(folder) for make, folder in zip(make_sinks, opened.outs, strict=True)]
        assembly = Assembly(spark, opened, trigger=trigger, available_now=available_now)
        outputs = [assembly.open_output(work, n, sink) for n, sink in enumerate(sinks)]
        begin = assembly.assembled(work, outputs)
        execution = Execution(spark, begin, assembly)
        return [Run(execution, output) for output in outputs]
    except BaseException:
        opened.close()
        raise


def stream_rows(
    spark: SparkSession, work: Work, *, checkpoint: str | None, shards: int
) -> tuple[DataFrame, Checkpoint]:
    """The elements of a query as a streaming DataFrame, and where its state is."""
    rows = _spark_schema(element_schema(work.plan.schema, ordered=True, clock=work.clocks[0]))
    opened = Checkpoint(checkpoint, work.plan, shards, older=work.older, priced=work.priced)
    # One shard tells of the stable point of all, so it has to know it.
    work = replace(work, plan=with_one_promise(opened.plan))
    try:
        paths = store_tables(work.plan, work.tables, opened.tables)
        work = replace(work, plan=with_tables(work.plan, paths))
        files = all_files(work, opened)
        # Spark's query is not known yet, and somebody may start two of them.
        state = f"{opened.state}/{QUERY}"
        job = job_of(work, opened, ("rows",), files, state=state)
        parcels = parcels_of(spark, work, file_job_of(work, files, job, opened, None), job, opened)
        return chain_stages(parcels, job, rows=rows), opened
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
