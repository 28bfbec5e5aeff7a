"""A change by replay: the state of the new plan, and what its output takes over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from anabranch.algebra.clip import Clip
from anabranch.algebra.node import Node
from anabranch.kernels.contract.kernel import Stateful
from anabranch.kernels.plan.combining_plans import same_stages
from anabranch.kernels.plan.stage import PhysicalPlan, Stage, StageState
from anabranch.kernels.plan.swap import shared_out
from anabranch.kernels.stateless.retime import RetimeKernel
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


def opening_moves(out: EventBatch, node: Node, at: Time) -> EventBatch:
    """What the new plan says of T and later, from all that was read."""
    if at == BEGINNING:
        return net(out)
    return net(RetimeKernel(Clip(input=node, start=at)).apply(out))


def is_readable(sink: Sink) -> bool:
    """Whether what has left can be read back, or nobody has got it."""
    return sink.delivery == "nothing" or type(sink).parts is not Sink.parts


def unreplayable_plan(plan: PhysicalPlan, sink: Sink, shards: int) -> str | None:
    """Why a query cannot change to a plan by replay, whatever it reads; None where it can."""
    if not is_readable(sink):
        return "its output cannot be read back, so its open results cannot be ended"
    if shards > 1:
        for stage in plan.stages:
            for kernel in stage.kernels:
                if isinstance(kernel, Stateful) and not kernel.can_be_shared_anew:
                    return f"the state of '{kernel.label}' cannot be shared out to {shards} shards"
    return None


@final
@dataclass(frozen=True, slots=True)
class Handover:
    """What a plan that was replayed brings: the state of its stages, and moves of its output."""

    plan: PhysicalPlan
    states: Mapping[str, StageState]
    moves: EventBatch

    def shards(
        self, stage: Stage, within: PhysicalPlan, shards: int
    ) -> Iterator[tuple[int, StageState]]:
        """The state of a stage of a combined plan, shard by shard; nothing for one without."""
        was = same_stages(self.plan, within).get(stage.name)
        state = stage.start() if was is None else self.states[was]
        return shared_out(stage, state, shards)
