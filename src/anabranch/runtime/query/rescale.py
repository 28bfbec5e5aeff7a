"""The state of a query for another number of shards, written beside what it is made of."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

from anabranch.errors import PlanError
from anabranch.kernels.contract.kernel import Stateful
from anabranch.kernels.lifetimes.cleanse import CleanseKernel
from anabranch.kernels.modules.apply_operator import ApplyOperatorKernel
from anabranch.kernels.plan.repartition import merged_stable, repartitioned
from anabranch.kernels.plan.stage import PhysicalPlan, Stage
from anabranch.runtime.messages.counters import StageCounters
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.layout import Home, StateLayout
from anabranch.runtime.store.phases import reached
from anabranch.runtime.store.stage_store import StageStore
from anabranch.runtime.store.state_store import Manifest, RunFile, StoredTrace
from anabranch.runtime.workers.job import is_spread

_LOG: Final = logging.getLogger("anabranch")

_COPIES: Final = "merge the copies as r3 or r4, or keep the number of shards"
_WINDOWS: Final = (
    "its rows hold for a while, and shards have begun their windows at different times: keep the "
    "number of shards, or start the query again with a new checkpoint"
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Rescale:
    """A change of the number of shards.

    Attributes:
        before: The number until now.
        after: The number from now on.
        batch: The batch that comes next.
        epoch: How often the number has changed, with this time.
    """

    before: int
    after: int
    batch: int
    epoch: int


def rescaled(
    plan: PhysicalPlan, layout: StateLayout, state: Folder, change: Rescale
) -> StateLayout:
    """Write the state of all stages anew, and say where it is; nothing that counts is touched."""
    began = time.perf_counter()
    _refuse_order(plan)
    homes = dict(layout.stages)
    rows = 0
    for stage in plan.stages:
        if is_spread(stage):
            old = homes[stage.name]
            new = replace(old, folder=f"{stage.name}{_suffix(change.epoch)}")
            homes[stage.name] = new
            rows += _rewritten(stage, state, old, new, change)
    reached("state rewritten", change.batch)
    _LOG.info(
        "from %d to %d shards: %d rows of state in %.1f s",
        change.before,
        change.after,
        rows,
        time.perf_counter() - began,
    )
    return replace(layout, stages=homes)


def _refuse_order(plan: PhysicalPlan) -> None:
    for stage in plan.stages:
        for kernel in stage.kernels:
            if isinstance(kernel, Stateful) and not kernel.can_be_shared_anew:
                raise PlanError(
                    "the number of shards cannot change",
                    where=kernel.label,
                    hint=_WINDOWS if isinstance(kernel, ApplyOperatorKernel) else _COPIES,
                )


def sweep_unfinished(state: Folder, epoch: int) -> None:
    """Remove what a change that was interrupted has left: the one after so many."""
    for name in state.folders():
        if name.endswith(_suffix(epoch + 1)):
            state.drop(name)


def sweep_unknown(state: Folder, known: Collection[str]) -> None:
    """Remove the state of stages that never began: a change of the plan was interrupted."""
    for name in state.folders():
        if name not in known:
            state.drop(name)


def refuse_unfinished(plan: PhysicalPlan, where: str) -> None:
    """A batch that has to be repeated must give the same rows, whatever the number of shards.

    Raises:
        PlanError: A shard that holds back whole events decides by what else it holds.
    """
    for stage in plan.stages:
        for kernel in stage.kernels:
            if is_spread(stage) and isinstance(kernel, CleanseKernel) and not kernel.node.cut:
                raise PlanError(
                    "the number of shards cannot change in the middle of a batch",
                    where=f"{where}, {kernel.label}",
                    hint="the last batch was interrupted: start the query once with its present "
                    "number, and change the number after that batch",
                )


def _rewritten(stage: Stage, state: Folder, old: Home, new: Home, change: Rescale) -> int:
    """Rewrite one stage, run by run; how many rows it has."""
    shards = range(change.before)
    before = _store(state, old).before(change.batch, shards)
    found = [before.manifest(shard) for shard in shards]
    manifests = [manifest for manifest in found if manifest is not None]
    if not manifests:
        return 0
    assert len({manifest.batch for manifest in manifests}) == 1
    batch = manifests[0].batch
    targets = [_store(state, new).shard(shard) for shard in range(change.after)]
    written = [0] * change.after
    states = [before.state(stage, shard) for shard in shards]
    kernels = [kernel for kernel in stage.kernels if isinstance(kernel, Stateful)]
    rewritten: list[tuple[int, int, list[dict[str, list[RunFile]]]]] = []
    for kernel, traces in zip(kernels, zip(*states, strict=True), strict=True):
        lists: list[dict[str, list[RunFile]]] = [{} for _ in targets]
        for number, trace in enumerate(traces):
            for name, pieces in repartitioned(kernel, trace, change.after, first=not number):
                for shard, rows in enumerate(pieces):
                    if rows is not None:
                        file = targets[shard].write_run(batch, written[shard], rows)
                        lists[shard].setdefault(name, []).append(file)
                        written[shard] += 1
        # What one of them has forgotten, none is asked for.
        cut = max(trace.cut for trace in traces)
        rewritten.append((merged_stable(traces, kernel), cut, lists))
    for shard, store in enumerate(targets):
        kept = tuple(
            StoredTrace(stable, {name: tuple(files) for name, files in lists[shard].items()}, cut)
            for stable, cut, lists in rewritten
        )
        store.commit(_manifest(stage, shard, batch, kept, manifests))
    return sum(file.rows for each in manifests for file in each.files())


def _manifest(
    stage: Stage,
    shard: int,
    batch: int,
    kernels: tuple[StoredTrace, ...],
    before: Sequence[Manifest],
) -> Manifest:
    """What a new shard knows: of progress, what all the old ones do.

    All shards of a stage hear the same of its sources, so there is nothing to choose from.
    """
    files = [file for trace in kernels for runs in trace.runs.values() for file in runs]
    counters = StageCounters(
        stage=stage.name,
        shard=shard,
        state_rows=sum(file.rows for file in files),
        state_runs=len(files),
        stable=min(each.stable for each in before),
    )
    return Manifest(
        batch=batch,
        kernels=kernels,
        sources={name: min(each.sources[name] for each in before) for name in before[0].sources},
        silent={name: min(each.silent[name] for each in before) for name in before[0].silent},
        copies=before[0].copies,
        interest=max(each.interest for each in before),
        interest_since=max(each.interest_since for each in before),
        counters=counters,
        ends={name: max(each.ends[name] for each in before) for name in _told(before)},
    )


def _told(before: Sequence[Manifest]) -> set[str]:
    """The sources whose greatest end all shards know."""
    return set[str].intersection(*(set(each.ends) for each in before))


def _store(state: Folder, home: Home) -> StageStore:
    return StageStore(folder=state.child(home.folder), since=home.since)


def _suffix(epoch: int) -> str:
    return f".s{epoch}"
