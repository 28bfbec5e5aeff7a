"""The state that a new plan begins with, and what its output takes over from the old one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from anabranch.algebra.clip import Clip
from anabranch.algebra.node import Node
from anabranch.kernels.contract.kernel import SortedRun, Stateful, Trace
from anabranch.kernels.modules.apply_operator import ApplyOperatorKernel
from anabranch.kernels.modules.reopening import reopened
from anabranch.kernels.plan.combining_plans import same_stages
from anabranch.kernels.plan.stage import PhysicalPlan, Stage, StageState
from anabranch.kernels.plan.swap import shared_out
from anabranch.kernels.stateless.retime import RetimeKernel
from anabranch.migrate.change import PlannedChange, RunningPlan
from anabranch.model.batch import EventBatch
from anabranch.model.netting import net
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.sinks.sinks import Sink


def closing_moves(batches: Iterable[EventBatch], at: Time) -> EventBatch | None:
    """How all events that have left are cut at T; None where nothing has left.

    What began before T ends there, what begins later is withdrawn. T is not before the stable
    point, so these moves are legal.
    """
    every = [batch for batch in batches if len(batch)]
    if not every:
        return None
    live = net(EventBatch.concat(every))
    live = live.where((live.new_end > np.int64(at)) & (live.new_end > live.start))
    return live.with_ends(live.new_end, np.maximum(live.start, np.int64(at)))


def ended_moves(sink: Sink, node: Node, at: Time) -> EventBatch:
    """How all events that have left through a sink are cut at T."""
    closing = None if sink.delivery == "nothing" else closing_moves(sink.batches(), at)
    return EventBatch.empty(node.schema) if closing is None else closing


def opening_moves(out: EventBatch, node: Node, at: Time) -> EventBatch:
    """What the new plan says of T and later, from all that was read."""
    if at == BEGINNING:
        return net(out)
    return net(RetimeKernel(Clip(input=node, start=at)).apply(out))


def is_readable(sink: Sink) -> bool:
    """Whether what has left can be read back, or nobody has got it."""
    return sink.delivery == "nothing" or type(sink).parts is not Sink.parts


def unreadable(sink: Sink) -> str | None:
    """Why what has left cannot be ended; None where it can."""
    if is_readable(sink):
        return None
    return "its output cannot be read back, so its open results cannot be ended"


def unreplayable_plan(plan: PhysicalPlan, sinks: Iterable[Sink], shards: int) -> str | None:
    """Why queries cannot change to a plan by replay, whatever it reads; None where they can."""
    why = next((found for found in map(unreadable, sinks) if found is not None), None)
    if why is not None:
        return why
    if shards > 1:
        for stage in plan.stages:
            for kernel in stage.kernels:
                if isinstance(kernel, Stateful) and not kernel.can_be_shared_anew:
                    return f"the state of '{kernel.label}' cannot be shared out to {shards} shards"
    return None


class Handover(ABC):
    """What a new plan begins with: the state of its stages, and moves of outputs, by number."""

    __slots__ = ()

    moves: Mapping[int, EventBatch]

    @abstractmethod
    def shards(
        self, stage: Stage, within: PhysicalPlan, shards: int
    ) -> Iterable[tuple[int, StageState]]:
        """The state of a stage of a combined plan, shard by shard; nothing for one without."""


@final
@dataclass(frozen=True, slots=True)
class ReopenedStates(Handover):
    """Stages whose user operators have got other code go on with the state that there is.

    Attributes:
        states: For each such stage what it begins with, shard by shard.
        moves: What ends in the outputs.
    """

    states: Mapping[str, Sequence[tuple[int, StageState]]]
    moves: Mapping[int, EventBatch]

    def shards(
        self, stage: Stage, within: PhysicalPlan, shards: int
    ) -> Iterable[tuple[int, StageState]]:
        """What was taken over; nothing for stages above."""
        del within
        own = self.states.get(stage.name)
        return [(shard, stage.start()) for shard in range(shards)] if own is None else own


def reopened_states(
    change: PlannedChange, running: RunningPlan, moves: Mapping[int, EventBatch]
) -> ReopenedStates:
    """Take over the state of user operators with other code, converted.

    Raises:
        OperatorError: A new version cannot read the states.
    """
    stages = {stage.name: stage for stage in change.both.stages}
    return ReopenedStates(
        {
            name: [(shard, _reopened(stages[name], state)) for shard, state in running.states(was)]
            for name, was in change.reopened.items()
        },
        moves,
    )


def _reopened(stage: Stage, state: StageState) -> StageState:
    """What a stage begins with whose last operator has got other code, in files of its own."""
    *_, last = (kernel for kernel in stage.kernels if isinstance(kernel, Stateful))
    assert isinstance(last, ApplyOperatorKernel)
    traces = (*state[:-1], reopened(last, state[-1]))
    return tuple(
        replace(
            trace,
            runs={
                name: tuple(SortedRun(run.rows) for run in runs)
                for name, runs in trace.runs.items()
            },
        )
        for trace in traces
    )


@final
@dataclass(frozen=True, slots=True)
class HealedStates(Handover):
    """What stages begin with that join lifetimes at T, beside what another handover brings.

    Attributes:
        states: For each stage that heals what has left and may still be prolonged.
        moves: What ends and begins in the outputs, joined where that is done.
        others: The state of the other stages; None: they begin with nothing.
    """

    states: Mapping[str, StageState]
    moves: Mapping[int, EventBatch]
    others: Handover | None

    def shards(
        self, stage: Stage, within: PhysicalPlan, shards: int
    ) -> Iterable[tuple[int, StageState]]:
        """The state of a stage, shard by shard."""
        if stage.name in self.states:
            return shared_out(stage, self.states[stage.name], shards)
        if self.others is None:
            return [(shard, stage.start()) for shard in range(shards)]
        return self.others.shards(stage, within, shards)


def healed_state(
    stage: Stage, left: Iterable[EventBatch], stable: Time, moves: EventBatch | None
) -> tuple[StageState, EventBatch]:
    """Let a stage that heals begin with all events that have left and may still be prolonged.

    An event that ends at the stable point may be prolonged: its end is not before that.

    Args:
        stage: The stage.
        left: What has left; moves between two ends before the stable point may be missing.
        stable: How far the output is settled.
        moves: What ends and begins in the output below the stage.

    Returns:
        Its state, and the same moves behind the stage.
    """
    (kernel,) = stage.kernels
    assert isinstance(kernel, Stateful)
    nothing = EventBatch.empty(stage.schema)
    events = net(EventBatch.concat([nothing, *(batch for batch in left if len(batch))]))
    events = events.where((events.new_end >= np.int64(stable)) & (events.new_end > events.start))
    whole = events.with_ends(events.start, events.new_end)
    trace, _ = kernel.step(Trace(), (kernel.prepare(whole),), stable)
    given = nothing if moves is None else moves
    trace, out = kernel.step(trace, (kernel.prepare(given),), stable)
    return (trace,), out


@final
@dataclass(frozen=True, slots=True)
class ReplayedStates(Handover):
    """What a plan that was replayed brings: the state of its stages, and moves of outputs."""

    plan: PhysicalPlan
    states: Mapping[str, StageState]
    moves: Mapping[int, EventBatch]

    def shards(
        self, stage: Stage, within: PhysicalPlan, shards: int
    ) -> Iterator[tuple[int, StageState]]:
        """The state of a stage of a combined plan, shard by shard; nothing for one without."""
        was = same_stages(self.plan, within).get(stage.name)
        state = stage.start() if was is None else self.states[was]
        return shared_out(stage, state, shards)
