"""The state of a plan computed anew, where a correction of the past changes it.

A count window numbers rows, so a row more in the past changes what it holds now. For such plans a
correction is replayed up to the newest row, and the state that comes out takes the place of the
old one between two batches. What leaves the query must go on from what has left it: later adjusts
name events as the new state has them, and they may be cut differently. So the output of such a
plan passes a *guard*, a coalesce in a stage of its own that is not exchanged. It looks at
snapshots only. In the batch of the exchange it gets, beside its rows, how the snapshots of the
new state differ from those of the old one behind its stable point; what differs before that is a
revision.

The query runs on while its past is replayed. What it has taken in meanwhile is then taken in by
both states, the old one and the new one, as it came (`before` of `replayed_state`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from anabranch.kernels.contract.kernel import SortedRun, Stateful, Trace
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.repartition import repartitioned
from anabranch.kernels.plan.stage import PhysicalPlan, Stage, StageState
from anabranch.model.batch import EventBatch
from anabranch.model.revision import reversed_changes, snapshot_changes
from anabranch.model.time import Time


@final
@dataclass(frozen=True, slots=True)
class ReplayedState:
    """What a plan remembers after it has taken in a past, and what its guards were told."""

    states: Mapping[str, StageState]
    told: Mapping[int, EventBatch]


def guards(plan: PhysicalPlan) -> list[int]:
    """The indexes of the stages that guard an output."""
    return [index for index, stage in enumerate(plan.stages) if stage.is_guard]


def replayed_state(
    plan: PhysicalPlan,
    past: Mapping[str, EventBatch],
    promised: Mapping[str, Time],
    before: ReplayedState | None = None,
) -> ReplayedState:
    """The state of a plan that has taken in the past of its sources as one batch.

    Args:
        plan: The plan.
        past: What came of each source.
        promised: How far each source has promised with that.
        before: Where the plan goes on from, if the past is not all that ever came.
    """
    runner = LocalRunner(plan)
    if before is not None:
        runner.resume(before.states)
    runner.step_all({name: rows.with_stable(promised[name]) for name, rows in past.items()})
    told = {index: runner.told(index) for index in guards(plan)}
    if before is not None:
        told = {
            index: EventBatch.concat([before.told[index], rows]) for index, rows in told.items()
        }
    return ReplayedState(runner.states, told)


def told_otherwise(plan: PhysicalPlan, old: ReplayedState, new: ReplayedState) -> list[EventBatch]:
    """Per output, how the snapshots that its guard is told of differ between two pasts."""
    return [
        snapshot_changes(EventBatch.concat([reversed_changes(old.told[index]), new.told[index]]))
        for index in plan.outputs
    ]


def shared_out(stage: Stage, state: StageState, shards: int) -> Iterator[tuple[int, StageState]]:
    """The state of a stage as one shard had it, for so many shards."""
    return shared_anew(stage, [state], shards)


def shared_anew(
    stage: Stage, states: Sequence[StageState], shards: int
) -> Iterator[tuple[int, StageState]]:
    """The state of a stage as some shards had it, for another number of shards."""
    kernels = [kernel for kernel in stage.kernels if isinstance(kernel, Stateful)]
    lists: list[list[dict[str, list[SortedRun]]]] = [[{} for _ in range(shards)] for _ in kernels]
    for was, state in enumerate(states):
        for number, (kernel, trace) in enumerate(zip(kernels, state, strict=True)):
            if shards == len(states) == 1:
                lists[number][0] = {name: list(runs) for name, runs in trace.runs.items()}
                continue
            for name, pieces in repartitioned(kernel, trace, shards, first=was == 0):
                for shard, rows in enumerate(pieces):
                    if rows is not None:
                        lists[number][shard].setdefault(name, []).append(SortedRun(rows))
    # What one of them has forgotten, none is asked for.
    cuts = [max(trace.cut for trace in traces) for traces in zip(*states, strict=True)]
    for shard in range(shards):
        yield (
            shard,
            tuple(
                Trace({name: tuple(runs) for name, runs in each[shard].items()}, trace.stable, cut)
                for each, trace, cut in zip(lists, states[0], cuts, strict=True)
            ),
        )
