"""The sending side of a source: judge what came, prepare it, pack it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.contract.command import Command
from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.interest import without_interest
from anabranch.kernels.plan.late_rows import LateRows
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.coarser import coarser
from anabranch.model.elements import Stable
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.archive.narrowing import narrowed
from anabranch.runtime.elements.exchange import announce, pack
from anabranch.runtime.messages.counters import RewrittenFile
from anabranch.runtime.messages.heads import (
    ControlHead,
    CopyReport,
    DeliveredRows,
    SourceHead,
    TimeHead,
)
from anabranch.runtime.messages.measured import SourceSample
from anabranch.runtime.sources.files.reader import FileSplit, read_corrections, read_split
from anabranch.runtime.sources.late import judge, reached
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.workers.delivery import deliver_part
from anabranch.runtime.workers.job import Job, Outlet
from anabranch.runtime.workers.observing import sample_of
from anabranch.runtime.workers.part_log import PartLog
from anabranch.runtime.workers.sending import source_parcels

PREPARE_FROM_ROWS: Final = 500_000
"""From this many rows on, a chunk is prepared and sent: equal rows add up, memory is bounded."""

Arrived = tuple[Arrivals, str]
"""Some rows, and what messages call their origin."""


@final
@dataclass(slots=True)
class SourceCounts:
    """What a task has read of a source since its last message, and how far that has promised."""

    reached: Time
    rows: int = 0
    late: int = 0
    adjusted: int = 0
    revised: int = 0
    skipped: int = 0
    ordered: bool = True
    copies: Mapping[int, CopyReport] = field(default_factory=dict)
    rewritten: tuple[RewrittenFile, ...] = ()


class Outbox:
    """What a task has of a source for all shards that read it, message by message."""

    def __init__(self, job: Job, source: str, part: int, batch: int) -> None:
        """The part is the number of the task among those of the source."""
        self._job = job
        self._source = source
        self._part = part
        self._batch = batch
        self._waiting: list[EventBatch] = []
        self._late: list[LateRows] = []
        self._message = 0
        self._last_end = int(BEGINNING)
        # Nothing was said yet, or a piece has come since; it may hold a promise and no rows.
        self.has_to_speak: bool = True

    def put(self, rows: EventBatch) -> bool:
        """Add the rows of a piece; whether there are enough for a message."""
        self.has_to_speak = True
        if len(rows):
            self._waiting.append(rows)
            self._last_end = max(self._last_end, _last_end(rows))
        return sum(map(len, self._waiting)) >= PREPARE_FROM_ROWS

    def put_late(self, rows: LateRows) -> None:
        """Add late rows, of which goes along what they change behind their bound."""
        self.has_to_speak = True
        self._late.append(rows)

    def flush(self, counts: SourceCounts) -> Iterator[pa.RecordBatch]:
        """Send what waits, with how far the source has come."""
        upstream = Address.source(self._source)
        first = self._job.routes(upstream)[0]
        columns = self._job.plan.arriving(self._source, self._job.columns(self._source))
        rows = EventBatch.concat(self._waiting) if self._waiting else EventBatch.empty(columns)
        head = SourceHead(
            source=self._source,
            counted_at=(first.target, first.edge),
            reached=int(counts.reached),
            rows=counts.rows,
            late=counts.late,
            adjusted=counts.adjusted,
            revised=counts.revised,
            skipped=counts.skipped,
            ordered=counts.ordered,
            copies=counts.copies,
            sample=self._sample(rows),
            last_end=self._last_end,
            rewritten=counts.rewritten,
        )
        yield from pack(
            source_parcels(
                self._job,
                upstream,
                rows,
                head,
                part=self._part,
                message=self._message,
                deliver=self._deliver,
                late=LateRows.together(self._late),
            )
        )
        self._message += 1
        self.has_to_speak = False
        self._waiting.clear()
        self._late.clear()

    def _sample(self, rows: EventBatch) -> SourceSample | None:
        """What the rows are like."""
        if not self._job.measures or not len(rows):
            return None
        points = self._job.plan.sources[self._source].only_points
        return sample_of(rows, self._job.sampled.get(self._source, ()), points=points)

    def _deliver(self, output: EventBatch, route: Outlet, number: int) -> DeliveredRows:
        sender = (route.edge, self._part, number)
        return deliver_part(self._job, route.target, self._batch, sender, output)


def _last_end(rows: EventBatch) -> int:
    """The greatest end that rows move, from or to."""
    last = int(rows.new_end.max())
    return last if rows.end is rows.start else max(last, int(rows.end.max()))


def send_source(
    job: Job,
    source: str,
    part: int,
    batch: int,
    pieces: Iterable[Arrived],
    *,
    ends: bool,
    in_order: bool = True,
    earlier: Time = BEGINNING,
    tells_time: bool = True,
    log: PartLog | None = None,
    rewritten: tuple[RewrittenFile, ...] = (),
) -> Iterator[pa.RecordBatch]:
    """Send one part of a source to all shards that read it.

    Args:
        job: The query.
        source: The name of the source.
        part: The number of this part in the batch.
        batch: The batch.
        pieces: What came, and what messages call its origin.
        ends: The source ends with this batch.
        in_order: Rows have positions; else lateness counts from batch to batch only.
        earlier: What the parts of this batch promise that come before this one in the source.
        tells_time: Rows promise something by their times; else they come beside the stream.
        log: Where the past of the query is kept; None: nowhere.
        rewritten: Files of the source that were written again after they were read.
    """
    promise = job.promises[source]
    before, instant = job.progress_of(source, batch)
    if promise.late == "revise":
        # What kernels have settled is what was promised before the batch: no other row is late.
        in_order, earlier = False, BEGINNING
    promised = Time(max(before, earlier))
    reached_at_end = FOREVER if ends else BEGINNING
    counts = SourceCounts(reached_at_end, ordered=in_order, rewritten=rewritten)
    insert_only = job.plan.sources[source].insert_only
    outbox = Outbox(job, source, part, batch)
    held = None
    if log is not None and promise.late == "revise":
        held = log.held()

    for arrivals, where in pieces:
        said = reached(promise, arrivals)
        verdict = judge(
            promise, promised, arrivals, where=where, in_order=in_order, held=held, said=said
        )
        if tells_time:
            counts.reached = Time(max(counts.reached, said))
        if in_order:
            promised = verdict.promised
        counts.rows += len(arrivals) + arrivals.left_out
        counts.adjusted += verdict.adjusted
        rows = verdict.batch
        late = None
        if log is not None and promise.late == "revise":
            log.take_in(rows)
        if log is not None and verdict.withheld is not None:
            late = log.withhold(verdict.withheld)
        if late is not None and log is not None and promise.late == "revise" and log.emits:
            counts.revised += verdict.late
            if log.sends:
                outbox.put_late(late)
        else:
            counts.late += verdict.late
        if instant > BEGINNING:
            settled = arrivals.batch.stable if in_order else BEGINNING
            out = without_interest(rows, instant, insert_only=insert_only, settled=settled)
            counts.skipped += int(np.count_nonzero(out))
            rows = rows.where(~out)
        if outbox.put(rows):
            yield from outbox.flush(counts)
            counts = SourceCounts(counts.reached, ordered=in_order)
    if outbox.has_to_speak:
        yield from outbox.flush(counts)
    if log is not None:
        log.close(counts.reached)


def send_time(job: Job, source: str, part: int, passed: int) -> Iterator[pa.RecordBatch]:
    """Tell all shards that read a source that time passes, whatever came of it."""
    nothing = EventBatch.empty(job.plan.arriving(source, job.columns(source)))
    head = TimeHead(source, passed)
    yield from pack(source_parcels(job, Address.source(source), nothing, head, part=part))


def send_commands(job: Job, part: int, commands: Sequence[Command]) -> Iterator[pa.RecordBatch]:
    """Tell all shards of all stages what somebody wants."""
    head = ControlHead(tuple(commands))
    for level in job.levels():
        for target in level:
            partitions = job.width(level)
            yield from pack(announce(head, target=target, edge=0, part=part, partitions=partitions))


def with_columns(arrivals: Arrivals, columns: Sequence[str]) -> Arrivals:
    """The same rows with some of their payload columns."""
    batch = arrivals.batch
    return replace(arrivals, batch=batch.with_payload(batch.payload.select(list(columns))))


def without_order(arrivals: Arrivals) -> Arrivals:
    """Rows that come in any order: a stable point among them holds behind all of them."""
    behind = int(arrivals.position.max(initial=0)) + 1
    return replace(arrivals, stable_positions=np.full(len(arrivals.stables), behind, np.int64))


def read_handed_in(
    job: Job, source: str, splits: Iterable[FileSplit], log: PartLog | None
) -> Iterator[Arrived]:
    """Corrections of a source that were handed in; they are logged on the way."""
    every, columns = job.plan.sources[source].schema, job.columns(source)
    is_copied = log is not None and log.is_copied
    for split in splits:
        for arrivals in read_corrections(split, every, every.names if is_copied else columns):
            if log is not None and is_copied:
                log.copy(arrivals.batch, job.promises[source].clock)
                arrivals = with_columns(arrivals, columns)
            elif log is not None:
                log.refer(split, arrivals)
            yield arrivals, split.path


def read_pieces(
    source: FileSource,
    splits: Iterable[FileSplit],
    columns: Sequence[str],
    log: PartLog | None = None,
) -> Iterator[Arrived]:
    """What files say, split by split, with these payload columns; it is logged on the way."""
    is_copied = log is not None and log.is_copied
    for split in splits:
        if split.path:
            for arrivals in _wanted_arrivals(
                source, split, source.schema.names if is_copied else columns
            ):
                if log is not None and is_copied:
                    revised = source.promise.late == "revise"
                    log.copy(arrivals.batch, source.promise.clock, revised=revised)
                    arrivals = with_columns(arrivals, columns)
                elif log is not None:
                    log.refer(split, arrivals)
                yield arrivals if source.ordered else without_order(arrivals), split.path
        if split.stable is not None:
            schema = pa.schema([source.schema.field(name) for name in columns])
            promised = Arrivals.of([Stable(split.stable)], schema)
            yield coarser(promised, source.promise.step), source.path


def _wanted_arrivals(
    source: FileSource, split: FileSplit, columns: Sequence[str]
) -> Iterator[Arrivals]:
    """What a piece says, as far as it concerns the instants that are asked for."""
    if source.within is None:
        yield from read_split(source, split, columns)
        return
    first, last = source.within
    for part in narrowed(source, split, source.within, {}):
        for arrivals in read_split(source, part, columns):
            rows = arrivals.batch
            ends = np.maximum(rows.end, rows.new_end)
            concerns = (rows.start < np.int64(last)) & (ends > np.int64(first))
            yield replace(
                arrivals,
                batch=rows.where(concerns),
                position=arrivals.position[concerns],
                is_adjust=arrivals.is_adjust[concerns],
            )
