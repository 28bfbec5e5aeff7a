"""Shards of a stage that get no rows and need no step: how long they rest, and what they become.

A step without rows depends on the progress of the inputs alone, and that is the same for all shards
of a stage. So what it comes to is found once, by a step of a shard that remembers nothing, and is
true of all shards that rest: the stable points of their traces, and how far output is settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from anabranch.kernels.contract.kernel import Arrived, Progress, Stateful, Stateless
from anabranch.kernels.plan.stage import Stage, StageState
from anabranch.model.time import BEGINNING, FOREVER, Time


@final
@dataclass(frozen=True, slots=True)
class StageRest:
    """How long the state of a shard rests.

    Attributes:
        until: For each of its traces the last stable point for which nothing has to be done.
        promise: How far output is settled at the most meanwhile.
    """

    until: tuple[Time, ...]
    promise: Time = FOREVER


@final
@dataclass(frozen=True, slots=True)
class IdleStep:
    """What a step without rows comes to for every shard that rests.

    Attributes:
        stables: The stable point of each trace.
        output: How far output is settled, unless a shard promises less.
    """

    stables: tuple[Time, ...]
    output: Time


def idle_step(stage: Stage, nothing: Arrived, progress: Progress) -> IdleStep | None:
    """What a step without rows comes to; None where there is output though nothing came."""
    state, output = stage.step(stage.start(), nothing, progress)
    if len(output):
        return None
    return IdleStep(tuple(trace.stable for trace in state), output.stable)


def stage_rest(stage: Stage, state: StageState) -> StageRest:
    """How long the state of a shard rests: as long as each of its traces does.

    What a trace holds back may only be passed on by what remembers nothing: else the traces behind
    it would have stable points of their own.
    """
    until: list[Time] = []
    promise, traces = FOREVER, list(state)
    for kernel in stage.kernels:
        if isinstance(kernel, Stateful):
            rest = kernel.rest(traces[len(until)])
            until.append(rest.until if promise == FOREVER else BEGINNING)
            promise = rest.promise
        elif promise < FOREVER:
            assert isinstance(kernel, Stateless)
            promise = kernel.promise(promise)
    return StageRest(tuple(until), promise)


def rested(stage: Stage, state: StageState, stables: Sequence[int]) -> StageState:
    """The state of a shard that has rested until its traces are as far as this."""
    kernels = [kernel for kernel in stage.kernels if isinstance(kernel, Stateful)]
    return tuple(
        kernel.rested(trace, Time(stable))
        for kernel, trace, stable in zip(kernels, state, stables, strict=True)
    )
