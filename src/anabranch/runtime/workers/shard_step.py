"""The step of one shard of a stage in one batch: take what came, step, store."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

from anabranch.kernels.contract.command import Command
from anabranch.kernels.contract.kernel import Arrived, Progress
from anabranch.kernels.plan.resting import StageRest, stage_rest
from anabranch.kernels.plan.stage import Stage, StageState
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING
from anabranch.runtime.elements.exchange import Parcel, gather
from anabranch.runtime.messages.counters import StageCounters
from anabranch.runtime.messages.heads import StageHead
from anabranch.runtime.messages.measured import OperatorCounters
from anabranch.runtime.store.phases import reached
from anabranch.runtime.store.stage_store import StageVersion
from anabranch.runtime.store.state_store import Manifest
from anabranch.runtime.workers.counting import count_sources, delivered_before
from anabranch.runtime.workers.guarding import exchanged_state, guarded_rows
from anabranch.runtime.workers.job import Job, is_keyed
from anabranch.runtime.workers.observing import Observer, edges_of, keys_in, samples_of
from anabranch.runtime.workers.own_settings import own_settings
from anabranch.runtime.workers.resting_shards import RestingShards
from anabranch.runtime.workers.row_order import netted, ordered
from anabranch.runtime.workers.stage_progress import SourceProgress


@final
@dataclass(frozen=True, slots=True)
class ShardStep:
    """What came of a step.

    Attributes:
        output: What the shard put out.
        counters: What it counted; in front of that, shard 0 hands on what it was told.
        stable_before: How far its output was settled before.
    """

    output: EventBatch
    counters: tuple[StageCounters, ...]
    stable_before: int


@final
@dataclass(frozen=True, slots=True)
class StageBatch:
    """What all shards of a stage have in common in a batch, for one task.

    Attributes:
        job: The query.
        stage_index: The stage.
        batch: The batch.
        heads: What senders said.
        before: What the shards of the task had before.
        sources: How far the sources of the stage are.
        progress: How far its inputs are.
        commands: What somebody wants.
        resting: The shards that make no step; None where none may rest.
    """

    job: Job
    stage_index: int
    batch: int
    heads: Sequence[Parcel]
    before: StageVersion
    sources: SourceProgress
    progress: Progress
    commands: Sequence[Command]
    resting: RestingShards | None

    @property
    def stage(self) -> Stage:
        """The stage."""
        return self.job.plan.stages[self.stage_index]

    def step(self, shard: int, parcels: Sequence[Parcel], began: float) -> ShardStep:
        """Take what came for a shard into its memory, and store that."""
        job, stage, batch, commands = self.job, self.stage, self.batch, self.commands
        arrived, progress = self._arrived(parcels), self.progress
        gathered = time.perf_counter()
        before = self.before.manifest(shard)
        state = self.before.state(stage, shard)
        state = exchanged_state(job, self.stage_index, shard, batch, state, commands)
        if stage.is_guard:
            arrived, progress = guarded_rows(
                job, self.stage_index, shard, batch, state, arrived, progress, commands
            )
        observer = Observer() if job.measures else None
        with own_settings():
            needs = job.needs(self.stage_index, self.sources.interest, self.sources.interest_since)
            state, output = stage.step(state, arrived, progress, observer, needs)
        output = netted(output) if job.nets(self.stage_index) else ordered(output)
        stepped = time.perf_counter()
        delivered = delivered_before(job, self.stage_index, shard, self.heads)
        counters = StageCounters(
            stage=stage.name,
            shard=shard,
            rows_in=sum(side.num_rows for side in arrived),
            rows_out=len(output) + sum(each.rows for each in delivered),
            state_rows=sum(trace.rows() for trace in state),
            state_runs=sum(len(runs) for trace in state for runs in trace.runs.values()),
            stable=int(output.stable),
            sources=count_sources(job, self.stage_index, shard, self.sources, self.heads),
            control=tuple(commands) if shard == 0 else (),
            report=stage.report(state),
        )
        after = self._save(shard, before, state, counters)
        seconds = {
            "gather": round(gathered - began, 4),
            "step": round(stepped - gathered, 4),
            "store": round(time.perf_counter() - stepped, 4),
        }
        edges = edges_of(self.heads, len(stage.edges)) if job.measures and shard == 0 else ()
        counters = counters.measured(
            sum(file.bytes for file in after.files()),
            seconds,
            _operators(observer, stage, arrived),
            edges,
            samples_of(self.heads) if shard == 0 else {},
        )
        # Shard 0 hears of all that was counted before it.
        heads = [parcel.head for parcel in self.heads if shard == 0]
        heard = [each for head in heads if isinstance(head, StageHead) for each in head.counters]
        stable_before = int(before.stable if before else BEGINNING)
        return ShardStep(output, (*heard, counters), stable_before)

    def _save(
        self, shard: int, before: Manifest | None, state: StageState, counters: StageCounters
    ) -> Manifest:
        batch, sources, resting = self.batch, self.sources, self.resting
        store = self.before.store
        rest = StageRest(()) if resting is None else stage_rest(self.stage, state)
        after = store.shard(shard).save(
            batch,
            before,
            state,
            sources=sources.sources,
            silent=sources.silent,
            copies=sources.copies,
            interest=sources.interest,
            ends=sources.ends,
            interest_since=sources.interest_since,
            counters=counters,
            rests=rest.until,
            promise=rest.promise,
            resting=int(resting.idle.output) if resting is not None and shard == 0 else None,
        )
        reached("manifest written", batch)
        # Once in so many batches, or when it writes for the first time since then.
        if batch // store.keep > self.before.version(shard) // store.keep:
            store.shard(shard).clean(batch)
            if shard == 0 and resting is not None:
                store.clean_index(batch)
        return after

    def _arrived(self, parcels: Sequence[Parcel]) -> Arrived:
        """The rows of each side, in an order that does not depend on what came first."""
        stage = self.stage
        sides: list[list[Parcel]] = [[] for _ in range(stage.sides)]
        for parcel in parcels:
            assert parcel.rows is not None
            stage.check(parcel.edge, parcel.rows)
            sides[stage.edges[parcel.edge].side].append(parcel)
        return tuple(
            gather(side_parcels, partial(self.job.nothing, self.stage_index, side))
            for side, side_parcels in enumerate(sides)
        )


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
