"""What leaves a query: output of a shard, of a sender, or the word of shards that have none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from anabranch.kernels.contract.packed_events import pack_events, packed_schema
from anabranch.kernels.contract.prepared import check_prepared
from anabranch.model.batch import EventBatch
from anabranch.model.lifetimes import lifetimes_of
from anabranch.model.time import FOREVER, Time
from anabranch.runtime.elements.elements import ElementPosition, element_rows
from anabranch.runtime.elements.exchange import Parcel
from anabranch.runtime.messages.counters import StageCounters
from anabranch.runtime.messages.heads import DeliveredRows, LogFile, OutputHead, OutputSummary
from anabranch.runtime.sources.files.log_folder import write_part
from anabranch.runtime.store.phases import reached
from anabranch.runtime.workers.counting import delivered_before
from anabranch.runtime.workers.job import Job
from anabranch.runtime.workers.row_order import ordered
from anabranch.runtime.workers.shard_step import ShardStep


def with_handed_over(
    job: Job, number: int, shard: int, batch: int, output: EventBatch
) -> EventBatch:
    """The rows of an output with what it takes over in this batch, which the first shard brings.

    Files of a batch are read by shard, so a later move of such an event stands behind it.
    """
    for each in job.handed_over:
        if (each.output, each.batch, shard) == (number, batch, 0):
            moves = EventBatch.concat([each.rows(output.schema), output])
            output = ordered(moves).with_stable(output.stable)
    return output


def deliver_part(
    job: Job, stage_index: int, batch: int, sender: tuple[int, int, int], output: EventBatch
) -> DeliveredRows:
    """Deliver what a sender has for a stage that only collects, before the exchange.

    The sender is the edge, the part of its source and the number of its message: the order in
    which files of a batch are read.
    """
    output = ordered(output)
    files: dict[int, LogFile] = {}
    for number in job.outputs_of(stage_index):
        if job.deliveries[number] == "log" and len(output):
            out = job.outs[number]
            name = "-".join(map(str, sender))
            file = write_part(out, batch, name, output, clock=job.clocks[number])
            files[number] = replace(file, sender=sender)
    lifetimes = lifetimes_of(output) if job.notes_lineage else ()
    return DeliveredRows(len(output), files, lifetimes)


def as_elements(
    position: ElementPosition, output: EventBatch, stable_before: int
) -> Iterator[pa.RecordBatch]:
    """One stable point for all shards, and only when it is news."""
    after = FOREVER if position.first else Time(stable_before)
    return element_rows(output, after=after, position=position)


def deliver(
    job: Job,
    number: int,
    shard: int,
    batch: int,
    output: EventBatch,
    step: ShardStep,
    heads: Sequence[Parcel],
) -> Iterator[Parcel]:
    """What the driver gets to know of an output: a parcel that no stage opens.

    `output` is what the step of the shard gave, with what it takes over.
    """
    delivery, rows = job.deliveries[number], None
    files: list[LogFile] = []
    lifetimes: list[tuple[int, int]] = []
    if job.notes_lineage:
        before = delivered_before(job, job.plan.outputs[number], shard, heads)
        lifetimes = [*lifetimes_of(output), *(one for each in before for one in each.lifetimes)]
    if delivery == "log":
        delivered = delivered_before(job, job.plan.outputs[number], shard, heads)
        files = [each.files[number] for each in delivered if number in each.files]
        if len(output):
            out = job.outs[number]
            files.append(write_part(out, batch, shard, output, clock=job.clocks[number]))
        reached("part written", batch)
    elif len(output) and delivery != "nothing":
        stage = job.plan.stages[job.plan.outputs[number]]
        where = f"stage {stage.name}, output {number}"
        rows = check_prepared(pack_events(output), packed_schema(stage.schema), where)
    head = _output_head(number, step.counters, step.stable_before)
    yield _to_driver(
        job, number, shard, replace(head, files=tuple(files), lifetimes=tuple(lifetimes)), rows
    )


def deliver_resting(
    job: Job, stage_index: int, counters: StageCounters, stable_before: int
) -> Iterator[Parcel]:
    """What the driver gets to know of all shards of a task that rest: how far they are."""
    for number in job.outputs_of(stage_index):
        if job.deliveries[number] != "rows":
            head = _output_head(number, (counters,), stable_before)
            yield _to_driver(job, number, counters.shard, head, None)


def _output_head(
    number: int, counters: tuple[StageCounters, ...], stable_before: int
) -> OutputHead:
    own = counters[-1]
    return OutputHead(
        output=number,
        stable=own.stable,
        stable_before=stable_before,
        said=OutputSummary(
            rows_in=own.rows_in,
            rows_out=own.rows_out,
            state_rows=own.state_rows,
            stable=own.stable,
        ),
        counters=counters,
    )


def _to_driver(
    job: Job, number: int, shard: int, head: OutputHead, rows: pa.RecordBatch | None
) -> Parcel:
    target = len(job.plan.stages) + number
    return Parcel(shard=shard, target=target, edge=0, part=shard, head=head, rows=rows)
