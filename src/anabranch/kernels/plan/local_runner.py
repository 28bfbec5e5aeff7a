"""Run a plan in this process, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from anabranch.algebra.node import Node
from anabranch.kernels.contract.command import Command
from anabranch.kernels.contract.kernel import Need, Trace
from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.combining_plans import same_stages
from anabranch.kernels.plan.compile import Emission, compile_plan
from anabranch.kernels.plan.interest import Interest, stage_needs
from anabranch.kernels.plan.late_rows import LateRows
from anabranch.kernels.plan.stage import Copies, PhysicalPlan, StageState, with_columns_of
from anabranch.model.batch import EventBatch, concat_rows
from anabranch.model.time import BEGINNING, Time

Wanted: TypeAlias = Literal["both", "memory", "output"]
"""What is asked of a step."""


class LocalRunner:
    """Run a plan in this process, one shard, no Spark: for tests, notebooks, the debugger."""

    def __init__(self, node: Node | PhysicalPlan, emit: Emission = "speculative") -> None:
        """Start with empty traces; a logical plan is compiled as it is."""
        self.plan: PhysicalPlan = (
            node if isinstance(node, PhysicalPlan) else compile_plan(node, emit=emit)
        )
        self._states = {stage.name: stage.start() for stage in self.plan.stages}
        self._stables: dict[str, Time] = dict.fromkeys(self.plan.sources, BEGINNING)
        self._copies: dict[str, dict[int, tuple[str, Time]]] = {}
        self._batches: dict[Address, EventBatch] = {}
        self._read = {edge.upstream for stage in self.plan.stages for edge in stage.edges}
        self._needs: tuple[tuple[Need, ...], ...] = ((),) * len(self.plan.stages)
        # What guards were told of in the last step below their stable points, by stage.
        self.below: dict[int, EventBatch] = {}

    @property
    def states(self) -> dict[str, StageState]:
        """The memory of each stage, by name."""
        return dict(self._states)

    def resume(self, states: Mapping[str, StageState]) -> None:
        """Go on with the memory of somebody who has run the same plan with one shard."""
        self._states = {stage.name: states[stage.name] for stage in self.plan.stages}

    @property
    def traces(self) -> list[Trace]:
        """The memory of all stateful kernels, in plan order."""
        return [trace for stage in self.plan.stages for trace in self._states[stage.name]]

    def state_rows(self) -> int:
        """How many rows all traces hold."""
        return sum(trace.rows() for trace in self.traces)

    def reports(self) -> dict[str, dict[str, Any]]:
        """What operators noticed in the last step, by stage; only where there is something."""
        found = {stage.name: stage.report(self._states[stage.name]) for stage in self.plan.stages}
        return {name: report for name, report in found.items() if report}

    def want(self, told: Interest) -> None:
        """From the next step on, only this of the output is of interest."""
        self._needs = stage_needs(self.plan, told)

    def step(
        self,
        came: Mapping[str, EventBatch],
        copies: Mapping[str, Copies] | None = None,
        commands: Sequence[Command] = (),
        late: Mapping[str, LateRows] | None = None,
    ) -> EventBatch:
        """Take in one batch per source (a source may be left out) and return the first output.

        Args:
            came: The rows; those of a source with copies have the column `__copy`.
            copies: What copies have promised by now; those that are left out stay as they are.
            commands: What came through the control stream.
            late: Rows below the stable point of their source, of which only what they change
                behind it goes in.
        """
        return self.step_all(came, copies, commands, late)[0]

    def step_all(
        self,
        came: Mapping[str, EventBatch],
        copies: Mapping[str, Copies] | None = None,
        commands: Sequence[Command] = (),
        late: Mapping[str, LateRows] | None = None,
        guarded: Mapping[int, EventBatch] | None = None,
        *,
        wanted: Wanted = "both",
    ) -> list[EventBatch]:
        """The same with all outputs of the plan.

        Args:
            came: The rows.
            copies: What copies have promised by now.
            commands: What came through the control stream.
            late: Rows below the stable point of their source.
            guarded: What stages that guard an output get beside their rows, by index.
            wanted: With `memory` outputs stay empty: the batch is only remembered. With `output`
                it is the last one: nothing is remembered.
        """
        for name, promised in (copies or {}).items():
            self._copies.setdefault(name, {}).update(promised)
            best = Time(max([BEGINNING, *(stable for _, stable in promised.values())]))
            self._stables[name] = Time(max(self._stables[name], best))
        batches: dict[Address, EventBatch] = {}
        for name in self.plan.sources:
            batch = came.get(name)
            if batch is None:
                batch = EventBatch.empty(self.plan.arriving(name))
            self._stables[name] = Time(max(self._stables[name], batch.stable))
            batches[Address.source(name)] = batch.with_stable(self._stables[name])
        for number, stage in enumerate(self.plan.stages):
            sides: list[list[pa.RecordBatch]] = [[] for _ in range(stage.sides)]
            stables = []
            for index, edge in enumerate(stage.edges):
                batch = batches[edge.upstream]
                if edge.columns is not None:
                    batch = with_columns_of(batch, edge.columns)
                own = (late or {}).get(edge.upstream.name) if edge.upstream.is_source else None
                more = None if own is None else own.through(self.plan, number, index)
                if index == 0 and guarded is not None and number in guarded:
                    assert more is None
                    more = guarded[number]
                sides[edge.side].append(stage.prepare(index, batch, late=more))
                stables.append(edge.promise(batch.stable))
            arrived = tuple(concat_rows(parts) for parts in sides)
            progress = stage.progress(stables, self._copies, commands)
            if stage.is_guard:
                own_state = self._states[stage.name]
                arrived, progress, below = stage.guarded(own_state, arrived, progress)
                self.below[number] = below
            address = Address.stage(stage.name)
            state = self._states[stage.name]
            if wanted == "output":
                batches[address] = stage.tell(state, arrived, progress)
            elif wanted == "memory" and address not in self._read:
                self._states[stage.name] = stage.remember(state, arrived, progress)
                batches[address] = EventBatch.empty(stage.schema)
            else:
                self._states[stage.name], batches[address] = stage.step(
                    state, arrived, progress, needs=self._needs[number]
                )
        self._batches = batches
        outputs = [self.plan.stages[index] for index in self.plan.outputs]
        return [batches[Address.stage(stage.name)] for stage in outputs]

    def told(self, index: int) -> EventBatch:
        """The rows that reached a stage of one side in the last step, behind its edges."""
        found = []
        for edge in self.plan.stages[index].edges:
            batch = with_columns_of(self._batches[edge.upstream], edge.columns)
            for step in edge.chain:
                batch = step.apply(batch)
            found.append(batch)
        return EventBatch.concat(found)

    def changed(self, plan: PhysicalPlan) -> LocalRunner:
        """Another plan that goes on: stages that compute the same keep their state."""
        runner = LocalRunner(plan)
        for name, was in same_stages(self.plan, plan).items():
            runner._states[name] = self._states[was]
        runner._stables |= {n: t for n, t in self._stables.items() if n in plan.sources}
        runner._copies = self._copies
        return runner

    def exchange(self, states: Mapping[str, StageState]) -> None:
        """Go on with the states of another run, for all stages but guards."""
        for stage in self.plan.stages:
            if not stage.is_guard:
                self._states[stage.name] = states[stage.name]
