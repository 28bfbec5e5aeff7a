"""The first version of the state of stages that begin in the middle of a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import final

from anabranch.kernels.plan.stage import PhysicalPlan, Stage, StageState
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.messages.counters import StageCounters
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.layout import StateLayout
from anabranch.runtime.store.stage_store import StageStore
from anabranch.runtime.store.state_store import CopyState, ShardStore


@final
@dataclass(frozen=True, slots=True)
class QueryProgress:
    """What the stages of a query know of its sources, and how far its outputs are settled.

    Attributes:
        sources: How far each source has promised.
        silent: For how many microseconds sources with a heartbeat have been silent.
        copies: For sources with copies, what is known of each copy.
        ends: The greatest end of all events that have come of each source.
        interest: What of the output ends before this is of no interest.
        stables: Per stage how far its output is settled in all shards.
    """

    sources: Mapping[str, int] = field(default_factory=dict)
    silent: Mapping[str, int] = field(default_factory=dict)
    copies: Mapping[str, Mapping[int, CopyState]] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    interest: int = BEGINNING
    stables: Mapping[str, int] = field(default_factory=dict)

    def end(self, source: str) -> Time:
        """The greatest end of a source; FOREVER where it is not known."""
        return Time(self.ends.get(source, int(FOREVER)))


def progress_before(
    plan: PhysicalPlan,
    layout: StateLayout,
    state: Folder,
    batch: int,
    shards_of: Callable[[Stage], int],
) -> QueryProgress:
    """What the stages of a plan know before a batch; nothing before the first."""
    sources: dict[str, int] = {}
    silent: dict[str, int] = {}
    copies: dict[str, Mapping[int, CopyState]] = {}
    ends: dict[str, int] = {}
    stables: dict[str, int] = {}
    interest = int(BEGINNING)
    for stage in plan.stages:
        home = layout.stages[stage.name]
        folder = state.child(home.folder)
        shards = range(shards_of(stage))
        found = StageStore(folder=folder, since=home.since).newest_before(batch, shards)
        stables[stage.name] = found.least_stable(shards)
        # All shards of a stage hear the same of its sources.
        first = found.lead
        if first is None:
            if batch == home.since:
                # Nothing has come of any source.
                ends |= {name: ends.get(name, int(BEGINNING)) for name in stage.reads}
            continue
        interest = max(interest, first.interest)
        for name in stage.reads:
            if name in first.sources:
                sources[name] = max(sources.get(name, int(BEGINNING)), first.sources[name])
            ends[name] = max(ends.get(name, int(BEGINNING)), first.ends.get(name, int(FOREVER)))
            if name in first.silent:
                silent[name] = first.silent[name]
            if name in first.copies:
                copies[name] = first.copies[name]
    return QueryProgress(sources, silent, copies, ends, interest, stables)


def seed_stage(
    stage: Stage,
    folder: Folder,
    batch: int,
    progress: QueryProgress,
    states: Iterable[tuple[int, StageState]],
    *,
    stable: int = BEGINNING,
) -> None:
    """Write the state that the shards of a stage begin a batch with.

    It is the version after the batch before, as if the stage had been there. What it knows of its
    sources is what the others know, so that a silent source does not hold it back.

    Args:
        stage: The stage.
        folder: The folder of its state.
        batch: Its first batch, which is not the first of the query.
        progress: What is known of the sources.
        states: Per shard what it remembers.
        stable: How far the output is settled that it goes on with.
    """
    for shard, state in states:
        store = ShardStore(folder=folder.child(str(shard)), since=batch)
        counters = StageCounters(
            stage=stage.name,
            shard=shard,
            state_rows=sum(trace.rows() for trace in state),
            state_runs=sum(len(runs) for trace in state for runs in trace.runs.values()),
            stable=int(stable),
        )
        store.save(
            batch - 1,
            None,
            state,
            sources=_of(progress.sources, stage),
            silent=_of(progress.silent, stage),
            copies={n: c for n, c in progress.copies.items() if n in stage.reads},
            interest=progress.interest,
            ends=_of(progress.ends, stage),
            counters=counters,
        )


def _of(values: Mapping[str, int], stage: Stage) -> dict[str, int]:
    return {name: value for name, value in values.items() if name in stage.reads}
