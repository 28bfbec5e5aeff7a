"""The stages of a query in a batch in which its state is exchanged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.kernels.contract.column_names import ID
from anabranch.kernels.contract.command import REVISE, Command
from anabranch.kernels.contract.kernel import Arrived, Progress
from anabranch.kernels.contract.routing import shard_of
from anabranch.kernels.plan.stage import StageState
from anabranch.kernels.plan.swap import shared_anew
from anabranch.runtime.archive.arrived import BelowFolder
from anabranch.runtime.store.swapped_state import SwappedState
from anabranch.runtime.workers.job import Job


def exchanged_state(
    job: Job,
    stage_index: int,
    shard: int,
    batch: int,
    state: StageState,
    commands: Sequence[Command],
) -> StageState:
    """The state that a shard begins a batch with: its own, or the one that takes its place."""
    stage = job.plan.stages[stage_index]
    serial = swap_of(job, batch, commands)
    if serial is None or stage.is_guard or job.past is None:
        return state
    stored, shards = SwappedState.of(job.past.folder, serial), job.shards_of(stage)
    written = stored.shards(stage.name)
    if written == shards:
        return stored.read(stage.name, shard)
    # The query was started again with another number of shards before a batch began with it.
    states = [stored.read(stage.name, each) for each in range(written)]
    return dict(shared_anew(stage, states, shards))[shard]


def guarded_rows(
    job: Job,
    stage_index: int,
    shard: int,
    batch: int,
    state: StageState,
    arrived: Arrived,
    progress: Progress,
    commands: Sequence[Command],
) -> tuple[Arrived, Progress]:
    """What a guard takes in; what lies below its stable point is left for a revision."""
    stage = job.plan.stages[stage_index]
    assert job.past is not None
    serial = swap_of(job, batch, commands)
    if serial is not None:
        schema = stage.guarded_schema()
        moves = SwappedState.of(job.past.folder, serial).read_guarded(stage_index, schema)
        rows = stage.prepare_guarded(moves)
        own = shard_of(rows.column(ID).to_numpy(), job.shards_of(stage)) == shard
        arrived = (pa.concat_batches([arrived[0], rows.filter(pa.array(np.asarray(own)))]),)
    arrived, progress, below = stage.guarded(state, arrived, progress)
    if len(below):
        for output in job.outputs_of(stage_index):
            BelowFolder.of(job.past.folder).write(batch, output, shard, below)
    return arrived, progress


def swap_of(job: Job, batch: int, commands: Sequence[Command]) -> int | None:
    """The revision whose state a batch begins with; one that another batch came before is void."""
    if job.past is None or not job.past.swaps:
        return None
    serials = [each.value for each in commands if each.verb == REVISE and each.value is not None]
    found = [each for each in serials if SwappedState.of(job.past.folder, each).is_for(batch)]
    return found[-1] if found else None
