"""From a logical plan to stages of kernels, and a runner that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

import pyarrow as pa

from anabranch.algebra.aggregate import Aggregate
from anabranch.algebra.coalesce import Coalesce
from anabranch.algebra.expression import Expression
from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.errors import PlanError
from anabranch.kernels.aggregate import AggregateKernel
from anabranch.kernels.coalesce import CoalesceKernel
from anabranch.kernels.filter import FilterKernel
from anabranch.kernels.final import FinalKernel
from anabranch.kernels.kernel import Kernel, Stateful, Stateless, Trace
from anabranch.kernels.map import MapKernel
from anabranch.kernels.pruning import needed_columns, prune
from anabranch.kernels.stage import Edge, PhysicalPlan, Stage, StageState, plan_fingerprint
from anabranch.kernels.time_window import TimeWindowKernel
from anabranch.model.batch import EventBatch, concat_rows
from anabranch.model.time import BEGINNING, Time

Emission = Literal["speculative", "final"]


@final
@dataclass(frozen=True, slots=True)
class _Part:
    """A way into the operator that is being compiled."""

    upstream: str
    chain: tuple[Stateless, ...]
    partitioned_by: frozenset[str] | None


def compile_plan(node: Node, emit: Emission = "speculative") -> PhysicalPlan:
    """Cut a plan at its exchanges.

    A stateful operator starts a stage, unless all its rows come from one stage whose partitioning
    keeps the operator's keys together. Steps without memory run where their input is.
    """
    compiler = _Compiler()
    parts = compiler.parts(node)
    if emit == "final":
        final_kernel = FinalKernel(node.schema)
        parts = compiler.keyed(final_kernel, parts, "final", None, anywhere=True)
    compiler.finish(parts, node)
    needed = needed_columns(node)
    stages = tuple(
        Stage(
            name=stage.name,
            edges=tuple(prune(edge, needed) for edge in stage.edges),
            kernels=stage.kernels,
            sharded=stage.sharded,
            schema=stage.schema,
        )
        for stage in compiler.stages
    )
    return PhysicalPlan(stages, node.schema, compiler.sources)


class _Compiler:
    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.sources: dict[str, Source] = {}

    def parts(self, node: Node) -> list[_Part]:
        match node:
            case Source():
                known = self.sources.setdefault(node.name, node)
                if known != node:
                    raise PlanError(
                        f"two different sources are named '{node.name}'",
                        hint="give every source its own name",
                    )
                return [_Part(f"source:{node.name}", (), None)]
            case Union():
                return [part for input in node.inputs for part in self.parts(input)]
            case Filter():
                return self._chain(node.input, FilterKernel(node))
            case Map():
                return self._chain(node.input, MapKernel(node), node)
            case TimeWindow():
                return self._chain(node.input, TimeWindowKernel(node))
            case Aggregate():
                names = frozenset(name for name, _ in node.group_by)
                return self.keyed(
                    AggregateKernel.of(node),
                    self.parts(node.input),
                    "aggregate",
                    names,
                    keys=dict(node.group_by),
                )
            case Coalesce():
                names = frozenset(node.schema.names)
                return self.keyed(CoalesceKernel(node), self.parts(node.input), "coalesce", names)
        raise PlanError(
            f"there is no kernel for {type(node).__name__}",
            hint="use the operators of anabranch.algebra",
        )

    def _chain(self, input: Node, kernel: Stateless, renames: Map | None = None) -> list[_Part]:
        return [
            _Part(
                part.upstream,
                (*part.chain, kernel),
                _renamed(part.partitioned_by, renames) if renames else part.partitioned_by,
            )
            for part in self.parts(input)
        ]

    def keyed(
        self,
        kernel: Stateful,
        parts: list[_Part],
        kind: str,
        names: frozenset[str] | None,
        *,
        keys: Mapping[str, Expression] | None = None,
        anywhere: bool = False,
    ) -> list[_Part]:
        """Put a stateful kernel behind its input, in a stage of its own or in the input's."""
        if len(parts) == 1 and self._stays(parts[0], names, keys, anywhere):
            (part,) = parts
            at = next(
                place
                for place, stage in enumerate(self.stages)
                if f"stage:{stage.name}" == part.upstream
            )
            stage = self.stages[at]
            self.stages[at] = Stage(
                name=stage.name,
                edges=stage.edges,
                kernels=(*stage.kernels, *part.chain, kernel),
                sharded=stage.sharded,
                schema=kernel.schema,
            )
            return [_Part(part.upstream, (), part.partitioned_by if names is None else names)]
        sharded = names is None or bool(names)
        return [self._new_stage(kind, parts, (kernel,), sharded, kernel.schema, names)]

    def _stays(
        self,
        part: _Part,
        names: frozenset[str] | None,
        keys: Mapping[str, Expression] | None,
        anywhere: bool,
    ) -> bool:
        """Whether rows of one key are together already, in the stage they come from."""
        if not part.upstream.startswith("stage:"):
            return False
        stage = next(stage for stage in self.stages if f"stage:{stage.name}" == part.upstream)
        if anywhere or not stage.sharded:
            return True
        if part.partitioned_by is None or names is None:
            return False
        columns = (
            names
            if keys is None
            else {key.is_column for key in keys.values() if key.is_column is not None}
        )
        return part.partitioned_by <= columns

    def _new_stage(
        self,
        kind: str,
        parts: list[_Part],
        kernels: tuple[Kernel, ...],
        sharded: bool,
        schema: pa.Schema,
        names: frozenset[str] | None,
    ) -> _Part:
        edges = tuple(Edge(part.upstream, part.chain) for part in parts)
        name = f"{len(self.stages)}-{kind}"
        self.stages.append(Stage(name, edges, kernels, sharded, schema))
        return _Part(f"stage:{name}", (), names)

    def finish(self, parts: list[_Part], node: Node) -> None:
        """The tail: in the last stage if all comes from there, else a stage that collects."""
        last = f"stage:{self.stages[-1].name}" if self.stages else ""
        if len(parts) == 1 and parts[0].upstream == last:
            stage = self.stages[-1]
            self.stages[-1] = Stage(
                name=stage.name,
                edges=stage.edges,
                kernels=(*stage.kernels, *parts[0].chain),
                sharded=stage.sharded,
                schema=node.schema,
            )
            return
        self._new_stage("collect", parts, (), True, node.schema, None)


def _renamed(names: frozenset[str] | None, map_: Map) -> frozenset[str] | None:
    """The partitioning columns after a projection, if all of them are still there."""
    if names is None:
        return None
    kept = {part.is_column: name for name, part in map_.columns if part.is_column is not None}
    if not names <= kept.keys():
        return None
    return frozenset(kept[name] for name in names)


class LocalRunner:
    """Run a plan in this process, one shard, no Spark: for tests, notebooks, the debugger."""

    def __init__(self, node: Node, emit: Emission = "speculative") -> None:
        """Compile the plan and start with empty traces."""
        self.plan = compile_plan(node, emit)
        self._states = {stage.name: stage.start() for stage in self.plan.stages}
        self._stables: dict[str, Time] = dict.fromkeys(self.plan.sources, BEGINNING)

    @property
    def traces(self) -> list[Trace]:
        """The memory of all stateful kernels, in plan order."""
        return [trace for stage in self.plan.stages for trace in self._states[stage.name]]

    def state_rows(self) -> int:
        """How many rows all traces hold."""
        return sum(trace.rows() for trace in self.traces)

    def step(self, arrived: Mapping[str, EventBatch]) -> EventBatch:
        """Take in one batch per source (a source may be left out) and give back the output."""
        batches: dict[str, EventBatch] = {}
        for name, source in self.plan.sources.items():
            batch = arrived.get(name, EventBatch.empty(source.schema))
            self._stables[name] = Time(max(self._stables[name], batch.stable))
            batches[f"source:{name}"] = batch.with_stable(self._stables[name])
        for stage in self.plan.stages:
            parts, stable = [], None
            for place, edge in enumerate(stage.edges):
                batch = batches[edge.upstream]
                if edge.columns is not None:
                    batch = batch.with_payload(batch.payload.select(edge.columns))
                parts.append(stage.prepare(place, batch))
                stable = batch.stable if stable is None else Time(min(stable, batch.stable))
            assert stable is not None
            state, output = stage.step(self._states[stage.name], concat_rows(parts), stable)
            self._states[stage.name] = state
            batches[f"stage:{stage.name}"] = output
        return batches[f"stage:{self.plan.stages[-1].name}"]


__all__ = [
    "Edge",
    "Emission",
    "LocalRunner",
    "PhysicalPlan",
    "Stage",
    "StageState",
    "compile_plan",
    "plan_fingerprint",
]
