"""One shard of a stage in one batch: gather, step, store, send on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pyarrow as pa

from anabranch.kernels.contract.kernel import Arrived
from anabranch.kernels.contract.packed_events import pack_events, packed_schema
from anabranch.kernels.contract.prepared import check_prepared
from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.stage import Stage
from anabranch.model.batch import EventBatch
from anabranch.model.lifetimes import lifetimes_of
from anabranch.model.netting import net
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.elements.elements import ElementPosition, element_rows
from anabranch.runtime.elements.exchange import Parcel, gather, pack, unpack
from anabranch.runtime.messages.counters import StageCounters
from anabranch.runtime.messages.heads import (
    DeliveredRows,
    LogFile,
    OutputHead,
    OutputSummary,
    StageHead,
)
from anabranch.runtime.messages.measured import OperatorCounters
from anabranch.runtime.sources.files.log_folder import write_part
from anabranch.runtime.store.phases import reached
from anabranch.runtime.workers.counting import count_sources, delivered_before
from anabranch.runtime.workers.guarding import exchanged_state, guarded_rows
from anabranch.runtime.workers.job import Job, is_keyed
from anabranch.runtime.workers.observing import Observer, edges_of, keys_in, samples_of
from anabranch.runtime.workers.own_settings import own_settings
from anabranch.runtime.workers.stage_progress import commands_in, source_progress, stage_progress

Batches = Iterator[pa.RecordBatch]


def run_level(
    job: Job, level: Sequence[int], shards: Sequence[int], batch: int, arriving: Batches
) -> Batches:
    """Do the work of some shards for some stages; parcels for later ones pass.

    The state is stored before anything leaves. If the task fails after that, the next attempt
    starts from the same older version and gives the same.
    """
    began = time.perf_counter()
    mine: list[Parcel] = []
    for rows in arriving:
        targets = np.isin(rows.column("target").to_numpy(), level)
        if targets.all():
            mine += unpack(rows)
            continue
        for row, is_mine in enumerate(targets):
            one = rows.slice(row, 1)
            if is_mine:
                mine += unpack(one)
            else:
                # To a later stage, or out.
                yield one
    for stage_index, shard in product(level, shards):
        stage = job.plan.stages[stage_index]
        if shard >= job.shards_of(stage):
            continue
        parcels = [one for one in mine if (one.target, one.shard) == (stage_index, shard)]
        output, head = _step(job, stage_index, shard, batch, parcels, began)
        yield from pack(job.parcels(Address.stage(stage.name), output, head, part=shard))
        for number in job.outputs_of(stage_index):
            own = _with_handed_over(job, number, shard, batch, output)
            if job.deliveries[number] == "rows":
                position = ElementPosition.of_shard(batch, shard, job.shards_of(stage))
                yield from _as_elements(position, own, head)
                continue
            yield from pack(_deliver(job, number, shard, batch, own, head, parcels))
        began = time.perf_counter()


def _step(
    job: Job, stage_index: int, shard: int, batch: int, parcels: list[Parcel], began: float
) -> tuple[EventBatch, StageHead]:
    stage, store = job.plan.stages[stage_index], job.store(stage_index, shard)
    before = store.load(batch)
    source_state = source_progress(job, stage_index, before, parcels)
    progress = stage_progress(job, stage_index, source_state, parcels)
    arrived = _arrived(job, stage_index, parcels)
    gathered = time.perf_counter()
    commands = commands_in(parcels)
    state = store.traces(before) if before else stage.start()
    state = exchanged_state(job, stage_index, shard, batch, state, commands)
    if stage.is_guard:
        arrived, progress = guarded_rows(
            job, stage_index, shard, batch, state, arrived, progress, commands
        )
    observer = Observer() if job.measures else None
    with own_settings():
        state, output = stage.step(state, arrived, progress, observer)
    output = netted(output) if job.nets(stage_index) else ordered(output)
    stepped = time.perf_counter()
    delivered = sum(each.rows for each in delivered_before(job, stage_index, shard, parcels))
    counters = StageCounters(
        stage=stage.name,
        shard=shard,
        rows_in=sum(side.num_rows for side in arrived),
        rows_out=len(output) + delivered,
        state_rows=sum(trace.rows() for trace in state),
        state_runs=sum(len(runs) for trace in state for runs in trace.runs.values()),
        stable=int(output.stable),
        sources=count_sources(job, stage_index, shard, source_state, parcels),
        control=tuple(commands) if shard == 0 else (),
        report=stage.report(state),
    )
    after = store.save(
        batch,
        before,
        state,
        sources=source_state.sources,
        silent=source_state.silent,
        copies=source_state.copies,
        interest=source_state.interest,
        ends=source_state.ends,
        interest_since=source_state.interest_since,
        counters=counters,
    )
    reached("manifest written", batch)
    if batch % store.keep == 0:
        store.clean(batch)
    seconds = {
        "gather": round(gathered - began, 4),
        "step": round(stepped - gathered, 4),
        "store": round(time.perf_counter() - stepped, 4),
    }
    counters = counters.measured(
        sum(file.bytes for file in after.files()),
        seconds,
        _operators(observer, stage, arrived),
        edges_of(parcels, len(stage.edges)) if job.measures and shard == 0 else (),
        samples_of(parcels) if shard == 0 else {},
    )
    # Shard 0 hands on what it hears; it hears from all shards before it.
    heads = [parcel.head for parcel in parcels if shard == 0]
    heard = [each for head in heads if isinstance(head, StageHead) for each in head.counters]
    last = int(before.stable if before else BEGINNING)
    head = StageHead(stable=int(output.stable), stable_before=last, counters=(*heard, counters))
    return output, head


def _operators(
    observer: Observer | None, stage: Stage, arrived: Arrived
) -> tuple[OperatorCounters, ...]:
    """What the kernels did; the first one of a stage with keys tells how many there were."""
    if observer is None or not observer.steps:
        return ()
    first, *others = observer.steps
    if is_keyed(stage):
        first = replace(first, keys=round(keys_in(arrived), 1))
    return (first, *others)


def _with_handed_over(
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


def _arrived(job: Job, stage_index: int, parcels: Sequence[Parcel]) -> Arrived:
    """The rows of each side, in an order that does not depend on what came first."""
    stage = job.plan.stages[stage_index]
    sides: list[list[Parcel]] = [[] for _ in range(stage.sides)]
    for parcel in parcels:
        if parcel.rows is not None:
            stage.check(parcel.edge, parcel.rows)
        sides[stage.edges[parcel.edge].side].append(parcel)
    return tuple(
        gather(side_parcels, partial(job.nothing, stage_index, side))
        for side, side_parcels in enumerate(sides)
    )


def ordered(batch: EventBatch) -> EventBatch:
    """The rows by time, so that output does not depend on how kernels happen to go about it.

    An event may move several times in a batch, and its moves keep their order.
    """
    if len(batch) < 2:
        return batch
    if (batch.end != batch.start).any():
        return batch.take(np.argsort(batch.start, kind="stable"))
    order = np.lexsort((batch.new_end, batch.end, batch.start))
    return batch if (order[1:] > order[:-1]).all() else batch.take(order)


def netted(batch: EventBatch) -> EventBatch:
    """One move per event, for rows whose order says nothing; inserts stay as they are."""
    return net(batch) if (batch.end != batch.start).any() else ordered(batch)


def _as_elements(position: ElementPosition, output: EventBatch, head: StageHead) -> Batches:
    """One stable point for all shards, and only when it is news."""
    after = FOREVER if position.first else Time(head.stable_before)
    return element_rows(output, after=after, position=position)


def _deliver(
    job: Job,
    number: int,
    shard: int,
    batch: int,
    output: EventBatch,
    head: StageHead,
    parcels: Iterable[Parcel],
) -> Iterator[Parcel]:
    """What the driver gets to know of an output: a parcel that no stage opens."""
    own, delivery = head.counters[-1], job.deliveries[number]
    rows: pa.RecordBatch | None = None
    files: list[LogFile] = []
    lifetimes: list[tuple[int, int]] = []
    if job.notes_lineage:
        before = delivered_before(job, job.plan.outputs[number], shard, parcels)
        lifetimes = [*lifetimes_of(output), *(one for each in before for one in each.lifetimes)]
    if delivery == "log":
        delivered = delivered_before(job, job.plan.outputs[number], shard, parcels)
        files = [each.files[number] for each in delivered if number in each.files]
        if len(output):
            out = job.outs[number]
            files.append(write_part(out, batch, shard, output, clock=job.clocks[number]))
        reached("part written", batch)
    elif len(output) and delivery != "nothing":
        stage = job.plan.stages[job.plan.outputs[number]]
        where = f"stage {stage.name}, output {number}"
        rows = check_prepared(pack_events(output), packed_schema(stage.schema), where)
    message = OutputHead(
        output=number,
        stable=head.stable,
        stable_before=head.stable_before,
        said=OutputSummary(
            rows_in=own.rows_in,
            rows_out=own.rows_out,
            state_rows=own.state_rows,
            stable=own.stable,
        ),
        counters=head.counters,
        files=tuple(files),
        lifetimes=tuple(lifetimes),
    )
    target = len(job.plan.stages) + number
    yield Parcel(shard=shard, target=target, edge=0, part=shard, head=message, rows=rows)
