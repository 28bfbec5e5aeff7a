"""Some shards of some stages in one batch: gather, step, store, send on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from anabranch.runtime.elements.elements import ElementPosition
from anabranch.runtime.elements.exchange import pack
from anabranch.runtime.workers.counting import delivering_shards
from anabranch.runtime.workers.delivery import (
    as_elements,
    deliver,
    deliver_resting,
    with_handed_over,
)
from anabranch.runtime.workers.guarding import swap_of
from anabranch.runtime.workers.inbox import StageInbox, sorted_out
from anabranch.runtime.workers.job import Job
from anabranch.runtime.workers.resting_shards import find_resting
from anabranch.runtime.workers.sending import StageOutbox
from anabranch.runtime.workers.shard_step import StageBatch
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
    inboxes: dict[int, StageInbox] = {}
    yield from sorted_out(arriving, level, inboxes)
    for stage_index in level:
        count = job.shards_of(job.plan.stages[stage_index])
        own = [shard for shard in shards if shard < count]
        if own:
            yield from _run_stage(job, stage_index, own, batch, inboxes[stage_index], began)
        began = time.perf_counter()


def _run_stage(
    job: Job, stage_index: int, shards: Sequence[int], batch: int, inbox: StageInbox, began: float
) -> Batches:
    """Do the work of some shards of a stage: one by one, but all that rest at once."""
    common = _stage_batch(job, stage_index, shards, batch, inbox)
    stage, resting = common.stage, common.resting
    outbox = StageOutbox(job, stage_index, shards[0])
    still = set() if resting is None else set(resting.index.shard.tolist())
    for shard in shards:
        if shard in still:
            continue
        step = common.step(shard, inbox.of_shard(shard), began)
        yield from pack(outbox.parcels(shard, step.output))
        outbox.count(step.counters)
        for number in job.outputs_of(stage_index):
            own = with_handed_over(job, number, shard, batch, step.output)
            if job.deliveries[number] == "rows":
                position = ElementPosition.of_shard(batch, shard, job.shards_of(stage))
                yield from as_elements(position, own, step.stable_before)
            else:
                yield from pack(deliver(job, number, shard, batch, own, step, inbox.heads))
        began = time.perf_counter()
    if resting is not None and still:
        counters = resting.counters(stage, measures=job.measures)
        yield from pack(deliver_resting(job, stage_index, counters, resting.stable_before))
        outbox.count((counters,))
    yield from pack(outbox.heads())


def _stage_batch(
    job: Job, stage_index: int, shards: Sequence[int], batch: int, inbox: StageInbox
) -> StageBatch:
    """What all shards have in common: all of them hear the same."""
    heads = inbox.heads
    before = job.stage_store(stage_index).before(batch, shards)
    sources = source_progress(job, stage_index, before.lead, heads)
    progress, commands = stage_progress(job, stage_index, sources, heads), commands_in(heads)
    resting = None
    if swap_of(job, batch, commands) is None:
        called = delivering_shards(job, stage_index, heads)
        if any(command.verb == "feedback" for command in commands):
            # What nobody needs any more, a shard forgets in a step.
            called = list(shards)
        resting = find_resting(job, stage_index, batch, shards, inbox, before, progress, called)
    return StageBatch(
        job=job,
        stage_index=stage_index,
        batch=batch,
        heads=heads,
        before=before,
        sources=sources,
        progress=progress,
        commands=commands,
        resting=resting,
    )
