"""Any DataFrame as a source: packed in the workers if it streams, else by way of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema

from anabranch.algebra.source import Source
from anabranch.errors import PlanError
from anabranch.model.arrivals import Arrivals
from anabranch.model.clock import INTEGERS
from anabranch.model.coarser import coarser
from anabranch.model.files.stream_parquet import TIMES_KEY
from anabranch.runtime.elements.exchange import PARCELS_DDL
from anabranch.runtime.sources.declare.declared import Declared, leaf_of
from anabranch.runtime.sources.declare.rows_shape import (
    clock_at,
    order_of,
    payload_of,
    refuse_limits,
    shape_of,
)
from anabranch.runtime.sources.files import reader as file_reader
from anabranch.runtime.sources.files.declared_columns import no_column
from anabranch.runtime.sources.options import SourceKind
from anabranch.runtime.sources.rows import arrivals_of, latest_start
from anabranch.runtime.sources.spec import (
    ARRIVAL,
    USUAL,
    ArchiveSpec,
    FileSource,
    Limits,
    Promise,
    Shape,
    archive_note,
    unordered_note,
)
from anabranch.runtime.spark.batch_id import current_batch, current_partition
from anabranch.runtime.spark.job_in_force import current_job
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.workers.begin_task import begin_task
from anabranch.runtime.workers.job import Job, seal
from anabranch.runtime.workers.part_log import PartLog
from anabranch.runtime.workers.source_task import Arrived, send_source, with_columns, without_order


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSource:
    """A DataFrame with times in some of its columns.

    Sorted by the columns `order`, if there are any, its rows are elements in their order. Rows are
    kept to be read again where it has an `archive`.
    """

    promise: Promise
    frame: DataFrame
    schema: pa.Schema
    stored: pa.Schema
    shape: Shape
    limits: Limits = USUAL
    order: tuple[str, ...] = ()
    archive: ArchiveSpec | None = None

    @property
    def name(self) -> str:
        """The name of the source."""
        return self.promise.source

    @property
    def is_sorted_by_start(self) -> bool:
        """Whether it does not stream and its rows, which have no order, get one."""
        has_delay = self.promise.delay is not None and not self.promise.stamped
        is_plain = self.shape.kind is None and self.shape.start is not None
        return not self.frame.isStreaming and has_delay and is_plain

    @property
    def order_note(self) -> str | None:
        """What it means for lateness that a DataFrame has no order; None where nothing is late."""
        if self.is_sorted_by_start:
            return (
                f"order of source '{self.name}': by start; the rows of this DataFrame are sorted "
                "when they are written down, so none is late"
            )
        if not self.frame.isStreaming or self.promise.stamped:
            return None
        options = (self.promise.delay, self.promise.heartbeat, self.shape.kind)
        return unordered_note(self.name) if any(each is not None for each in options) else None

    @property
    def archive_note(self) -> str | None:
        """Where its rows are kept, and whether late ones are revisions; None where they are not."""
        return archive_note(self.promise, self.archive)


def frame_schema(frame: DataFrame) -> pa.Schema:
    """The columns of a DataFrame with Arrow's types."""
    try:
        found = to_arrow_schema(frame.schema, timezone="UTC")
    except Exception as problem:
        raise PlanError(
            "the DataFrame has a column of a type that Arrow does not have",
            where=str(problem)[:200],
            hint="select the columns you need, cast to other types",
        ) from problem
    notes_text = {
        field.name: field.metadata.get(TIMES_KEY.decode()) for field in frame.schema.fields
    }
    notes = {name: {TIMES_KEY: note.encode()} for name, note in notes_text.items() if note}
    return pa.schema(
        [
            pa.field(
                field.name,
                field.type,
                metadata=notes.get(field.name),
            )
            for field in found
        ]
    )


def describe_frame(frame: DataFrame, declared: Declared) -> tuple[FrameSource, Source]:
    """A DataFrame as a source, and the leaf it is in a plan.

    Without a named start the columns are those of an element table: `start`, and if they are
    there `end`, `new_end` and `kind`. Times get names of their own, so that a projection cannot
    take them away.

    Raises:
        PlanError: The columns that are named are not there.
    """
    there = frame_schema(frame)
    if declared.relation and frame.isStreaming:
        raise PlanError(
            f"relation '{declared.name}' is a streaming DataFrame",
            hint="a relation must be complete when a query starts; use engine.stream for a stream",
        )
    streams: SourceKind = "frame" if frame.isStreaming else "still"
    declared.refuse_misplaced("table" if declared.relation else streams)
    rows = declared.start is None and declared.kind is None and not declared.relation
    if rows and declared.may_be_stamped and "start" not in there.names:
        declared = replace(declared, start=ARRIVAL)
    if declared.stamped:
        # Spark gives all rows of a batch one time, and writes it down before it reads them.
        frame = frame.withColumn(ARRIVAL, sf.current_timestamp())
        declared, there = replace(declared, hides_times=True), frame_schema(frame)
    if declared.start is None and not declared.relation:
        kind = declared.kind or ("kind" if "kind" in there.names else None)
        end = declared.end or ("end" if "end" in there.names else None)
        declared = replace(declared, kind=kind, end=end)
    for name in declared.schema.names if declared.schema is not None else ():
        if name not in there.names:
            raise no_column(name, there.names, where=f"source '{declared.name}': a DataFrame")
    shape = shape_of(declared, there)
    schema = payload_of(declared, shape, there)
    found = INTEGERS if shape.start is None else clock_at(there.field(shape.start))
    promise = declared.promise(found)
    order = order_of(declared, shape, there)
    if shape.kind is not None and not order and not frame.isStreaming:
        refuse_limits(declared, "a DataFrame")
    schema = pa.schema([field for field in schema if field.name not in order])
    given = {"start": shape.start, "end": shape.end, "new_end": shape.new_end, "kind": shape.kind}
    own = {key: f"__{key}" for key, name in given.items() if name is not None}
    times = [sf.col(_quoted(given[key] or "")).alias(name) for key, name in own.items()]
    stored = pa.schema(
        [*schema, *(pa.field(name, there.field(given[key]).type) for key, name in own.items())]
    )
    times += [sf.col(name).alias(f"_{name}") for name in order]
    source = FrameSource(
        promise=promise,
        frame=frame.select(*[_quoted(name) for name in schema.names], *times),
        schema=schema,
        stored=stored,
        shape=Shape(**{"start": None, **own}),
        limits=declared.limits,
        order=tuple(f"_{name}" for name in order),
        archive=declared.archive_spec(promise.clock),
    )
    return source, leaf_of(declared, schema, shape, promise.clock)


def sent_columns(source: FrameSource, job: Job) -> tuple[str, ...]:
    """The payload columns of a DataFrame that workers get."""
    is_copied = job.past is not None and source.name in job.past.copied
    return tuple(source.schema.names) if is_copied else job.columns(source.name)


def send_frame(source: FrameSource, job: Job, home: str = "") -> DataFrame:
    """A streaming DataFrame of parcels; a job in `home` may take the place of this one."""
    needed = dict.fromkeys([*sent_columns(source, job), *source.shape.columns])
    return source.frame.select(*map(_quoted, needed)).mapInArrow(
        _sender(seal(job), home, source.name, source.shape), PARCELS_DDL
    )


def _sender(
    sealed: bytes, home: str, name: str, shape: Shape
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        job, part, batch = current_job(sealed, home), current_partition(), current_batch()
        log = job.part_log(name, part, batch)
        pieces = _pieces(job, name, shape, batches, log)
        yield from send_source(job, name, part, batch, pieces, ends=False, in_order=False, log=log)

    return run


def _pieces(
    job: Job,
    name: str,
    shape: Shape,
    batches: Iterator[pa.RecordBatch],
    log: PartLog | None = None,
) -> Iterator[Arrived]:
    """Spark's small batches, put together; they are logged on the way."""
    full, wanted = job.plan.sources[name].schema, job.columns(name)
    is_copied = log is not None and log.is_copied
    columns = full.names if is_copied else wanted
    schema = pa.schema([full.field(column) for column in columns])
    waiting: list[pa.RecordBatch] = []
    number = 1

    def gathered() -> Arrived:
        rows = pa.concat_batches(waiting)
        arrivals = coarser(_arrivals(rows, schema, shape, number), job.promises[name].step)
        if log is not None and is_copied:
            promise = job.promises[name]
            log.copy(arrivals.batch, promise.clock, revised=promise.late == "revise")
            arrivals = with_columns(arrivals, wanted)
        # Rows of a DataFrame have no order: a stable point holds after the batch.
        return without_order(arrivals), "DataFrame"

    for rows in batches:
        if not rows.num_rows:
            continue
        waiting.append(rows)
        if sum(each.num_rows for each in waiting) >= file_reader.CHUNK_ROWS // 2:
            yield gathered()
            number += sum(each.num_rows for each in waiting)
            waiting.clear()
    if waiting:
        yield gathered()


def _arrivals(rows: pa.RecordBatch, schema: pa.Schema, shape: Shape, number: int) -> Arrivals:
    """What rows say; of those that a filter leaves out, only how late it is."""
    if shape.keep is None:
        return arrivals_of(rows, schema, shape, first=number, where="DataFrame")
    keep = rows.column(shape.keep)
    arrivals = arrivals_of(rows.filter(keep), schema, shape, first=number, where="DataFrame")
    left_out = rows.num_rows - len(arrivals)
    if not left_out:
        return arrivals
    latest = latest_start(rows, shape, where="DataFrame")
    return replace(arrivals, left_out=left_out, latest=latest)


def as_files(source: FrameSource, folder: str) -> FileSource:
    """A DataFrame that does not stream, written down once: from then on it is a file that ends.

    Elements that have columns with their order are sorted by them. Otherwise rows have no order:
    stable points say nothing before the end, and all elements make one batch. Plain rows with a
    declared delay are sorted by their starts: then the source makes progress with every batch, and
    none of its rows is late.
    """
    target = f"{folder}/{source.name}"
    if "_SUCCESS" not in Folder.at(target).names():
        frame = source.frame
        if source.order:
            frame = frame.orderBy(*source.order).drop(*source.order)
        elif source.shape.kind is not None:
            frame = frame.where(sf.col(source.shape.kind) != "stable")
        elif source.is_sorted_by_start:
            frame = frame.orderBy(sf.col(source.shape.start or ""))
        frame.write.mode("overwrite").parquet(target)
    return FileSource(
        promise=source.promise,
        path=target,
        form="parquet",
        schema=source.schema,
        stored=source.stored,
        shape=source.shape,
        ends=True,
        limits=source.limits,
        ordered=bool(source.order) or source.shape.kind is None,
        archive=source.archive,
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
