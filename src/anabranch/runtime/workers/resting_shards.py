"""Find the shards of a task that need no step in a batch, all at once, and speak for them.

What a batch costs shall follow from its rows, not from the number of shards. A shard rests if no
rows came for it and its memory is not due for anything (`Stateful.rest`): what a step without rows
would come to is then known, and the same for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from anabranch.kernels.contract.kernel import Progress, Stateful
from anabranch.kernels.plan.resting import IdleStep, idle_step, stage_rest
from anabranch.kernels.plan.stage import Stage
from anabranch.model.time import Time
from anabranch.runtime.messages.counters import StageCounters
from anabranch.runtime.messages.measured import OperatorCounters
from anabranch.runtime.store.shard_index import ShardIndex
from anabranch.runtime.store.stage_store import StageVersion
from anabranch.runtime.workers.inbox import StageInbox
from anabranch.runtime.workers.job import Job
from anabranch.runtime.workers.own_settings import own_settings

RESTING_FROM_SHARDS: Final = 16
"""With fewer shards, all of them make a step in every batch: that costs less than an index."""


@final
@dataclass(frozen=True, slots=True)
class RestingShards:
    """Those of a task that rest.

    Attributes:
        index: What is known of them.
        idle: What a step would come to.
        stable_before: How far the output of all of them was settled before.
    """

    index: ShardIndex
    idle: IdleStep
    stable_before: int

    def __len__(self) -> int:
        return len(self.index.shard)

    def counters(self, stage: Stage, *, measures: bool) -> StageCounters:
        """What all of them hold together."""
        rows = iter(self.index.rows.sum(axis=0).tolist())
        return StageCounters(
            stage=stage.name,
            shard=int(self.index.shard[0]),
            state_rows=int(self.index.rows.sum()),
            state_runs=int(self.index.runs.sum()),
            stable=min(int(self.idle.output), int(self.index.promise.min())),
            state_bytes=int(self.index.size.sum()),
            operators=tuple(
                OperatorCounters(state_rows=next(rows) if isinstance(kernel, Stateful) else 0)
                for kernel in stage.kernels
                if measures
            ),
            shards=len(self),
        )


def find_resting(
    job: Job,
    stage_index: int,
    batch: int,
    shards: Sequence[int],
    inbox: StageInbox,
    before: StageVersion,
    progress: Progress,
    called: Sequence[int],
) -> RestingShards | None:
    """The shards of a task that rest in a batch, maybe none of them; written down in the index.

    None: all shards of the stage make a step, as if there were no index. That depends on what all
    its tasks know, for the index has to be whole.

    Args:
        job: The query.
        stage_index: The stage.
        batch: The batch.
        shards: The shards of the task.
        inbox: What came for them.
        before: What they had before.
        progress: How far their inputs are.
        called: Those that have something to do beside their rows.
    """
    stage, store = job.plan.stages[stage_index], job.stage_store(stage_index)
    if job.shards_of(stage) < RESTING_FROM_SHARDS:
        return None
    nothing = tuple(job.nothing(stage_index, side) for side in range(stage.sides))
    was = before.stables
    if stage.is_guard and was is not None:
        progress = replace(progress, sides=stage.guarded_sides(Time(was[0]), progress))
    with own_settings():
        idle = idle_step(stage, nothing, progress)
    if idle is None:
        return None
    own = np.asarray(shards)
    busy = np.isin(own, [0, *inbox.rows, *called]) | bool(inbox.shared)
    earlier = store.read_index(batch, shards)
    if earlier is not None:
        busy |= np.isin(own, earlier.shard[earlier.version == batch])
    known = before.entries(shards, busy, stage_rest(stage, stage.start()))
    has_sunk = was is not None and any(now < then for now, then in zip(idle.stables, was))
    rests = ~busy & known.rests(idle.stables) & (not has_sunk)
    stepping = ShardIndex.busy(own[~rests].tolist(), batch, known.kernels)
    resting = known.where(rests)
    store.write_index(batch, ShardIndex.together([resting, stepping]))
    least = before.least_stable(resting.shard.tolist()) if len(resting.shard) else 0
    return RestingShards(resting, idle, least)
