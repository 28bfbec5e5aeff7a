"""The exchange of the state of a running query, where a correction changes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from anabranch.kernels.plan.swap import ReplayedState, guards, shared_out, told_otherwise
from anabranch.model.batch import EventBatch
from anabranch.model.revision import clipped_changes
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.revisions.past import Past
from anabranch.runtime.revisions.replayer import Replayer
from anabranch.runtime.store.swapped_state import SwappedState
from anabranch.runtime.workers.job import Job


@final
@dataclass(frozen=True, slots=True)
class Exchange:
    """What an exchange comes to.

    Attributes:
        state: What the query remembers from then on.
        settled: Per output, what changes before its stable point: a revision.
        behind: Per output, what changes from its stable point on, for its guard.
        batch: The state is that after this batch: only the next one can begin with it.
    """

    state: ReplayedState
    settled: list[EventBatch]
    behind: list[EventBatch]
    batch: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StateReplay:
    """A query after a batch, as it is and as it would be, had late rows come in time."""

    old: ReplayedState
    new: ReplayedState
    batch: int


@final
@dataclass(frozen=True, slots=True)
class Swapper:
    """Computes the state that a query would have, had late rows come in time."""

    job: Job
    replayer: Replayer

    def replay(
        self,
        past: Past,
        batch: int,
        before: Mapping[str, Collection[int]],
        after: Mapping[str, Collection[int]],
    ) -> StateReplay:
        """The state after a batch, beside the present one.

        Args:
            past: What came up to the batch.
            batch: It is committed.
            before: Per source, the batches whose late rows are in the present state.
            after: The same for the state to be.
        """
        plan, promised = self.job.plan, self._promised(batch)
        return StateReplay(
            old=self.replayer.state(past, plan, promised, before),
            new=self.replayer.state(past, plan, promised, after),
            batch=batch,
        )

    def caught_up(self, replay: StateReplay, past: Past, batch: int) -> StateReplay:
        """The same after a later batch: both states take in what the query has since."""
        plan, promised = self.job.plan, self._promised(batch)
        old, new = (
            self.replayer.further_state(each, past, plan, promised, replay.batch)
            for each in (replay.old, replay.new)
        )
        return StateReplay(old=old, new=new, batch=batch)

    def exchange(self, replay: StateReplay, stables: Sequence[Time]) -> Exchange:
        """What the exchange of the state after a batch comes to, with outputs settled so far."""
        changes = told_otherwise(self.job.plan, replay.old, replay.new)
        pairs = list(zip(changes, stables, strict=True))
        return Exchange(
            state=replay.new,
            settled=[clipped_changes(each, BEGINNING, stable) for each, stable in pairs],
            behind=[clipped_changes(each, stable, FOREVER) for each, stable in pairs],
            batch=replay.batch,
        )

    def _promised(self, batch: int) -> dict[str, Time]:
        """How far each source has promised after a batch."""
        return {name: self.job.progress_of(name, batch + 1)[0] for name in self.job.plan.sources}

    def write(self, exchange: Exchange, revisions: str, serial: int) -> None:
        """Leave the state where the batch that is told of it finds it."""
        target = SwappedState.of(revisions, serial)
        plan = self.job.plan
        for stage in plan.stages:
            if not stage.is_guard:
                shards = self.job.shards_of(stage)
                for shard, traces in shared_out(stage, exchange.state.states[stage.name], shards):
                    target.write(stage.name, shard, traces)
        told = dict(zip(plan.outputs, exchange.behind, strict=True))
        for index in guards(plan):
            target.write_guarded(index, told[index])
        target.write_batch(exchange.batch)
