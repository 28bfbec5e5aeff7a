"""From a logical plan to stages of kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar, final

import pyarrow as pa

from anabranch.algebra.analysis.determinism import check_chance
from anabranch.algebra.analysis.ended_windows import only_ended
from anabranch.algebra.analysis.layers import refuse_endless_layers
from anabranch.algebra.analysis.presence import with_presence_windows
from anabranch.algebra.analysis.weights import with_weighted_windows
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.union import Union
from anabranch.errors import PlanError
from anabranch.kernels.contract.kernel import Kernel, Stateful, Stateless
from anabranch.kernels.contract.routing import OWN, Route
from anabranch.kernels.join.lookup import LookupKernel
from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.catalog import (
    Placement,
    coalesce_placement,
    final_placement,
    kernel_of,
)
from anabranch.kernels.plan.pruning import needed_columns, prune
from anabranch.kernels.plan.stage import (
    GUARD,
    Edge,
    PhysicalPlan,
    Stage,
    StageState,
)
from anabranch.kernels.stateless.filter import FilterKernel
from anabranch.kernels.stateless.map import MapKernel

Emission = Literal["speculative", "final", "watermark"]
"""Best answers, corrected later; only what stays; of windows only those that have ended."""

LATE_ROWS: Final = "late-rows"
"""What stages are called through which rows come that were cut because they were late."""

KernelT = TypeVar("KernelT", bound=Kernel)


@final
@dataclass(frozen=True, slots=True)
class _PlanPart:
    """A way into the operator that is being compiled.

    `shared` says that others read the upstream, too, so that its stage must stay as it is.
    `sent` is how the rows of the upstream tell their shard, `route` how they do after the chain.
    """

    upstream: Address
    chain: tuple[Stateless, ...]
    colocated_by: frozenset[str] | None
    shared: bool = False
    sent: Route | None = None
    route: Route | None = None


def compile_plan(
    *nodes: Node,
    emit: Emission = "speculative",
    tables: frozenset[str] = frozenset(),
    routed: bool = True,
    guarded: bool = False,
    late: frozenset[str] = frozenset(),
) -> PhysicalPlan:
    """Cut a plan at its exchanges; several plans become one, with as many outputs.

    Joins with `tables`, relations that never change, look partners up; `with_tables` has to say
    where, before anything runs.

    A stateful operator starts a stage, unless all its rows come from one stage whose partitioning
    keeps the operator's keys together. Steps without memory run where their input is. What occurs
    more than once runs once.

    Rows of the sources `late` may come below their stable points. What of them enters the query
    then is cut there, and later moves name it as it was. So operators that remember events get
    such rows through a coalesce, which looks at snapshots only.

    With `guarded` every output passes a stage of its own, so that the state before it can be
    exchanged (`swap.py`).

    What is remembered tells in which shard it belongs, so that there may be another number of
    them; without `routed` the plan is that of queries which began before this was so.
    """
    for node in nodes:
        check_chance(node)
    if emit == "watermark":
        nodes = tuple(only_ended(node) for node in nodes)
    nodes = tuple(with_weighted_windows(with_presence_windows(node)) for node in nodes)
    for node in nodes:
        refuse_endless_layers(node)
    compiler = _Compiler(nodes, tables, routed=routed, late=late, replayable=guarded)
    for node in nodes:
        parts = compiler.parts(node)
        if guarded:
            # A stage that others read, too, stays as it is: so the guard is not put into it.
            shared = [replace(part, shared=True) for part in parts]
            parts = compiler.keyed(coalesce_placement(node, GUARD), [shared])
        if emit == "final":
            parts = compiler.final(compiler.by_snapshots(node, parts), node.schema)
        compiler.finish(parts, node)
    needed = needed_columns(*nodes)
    stages = tuple(
        # A coalesce looks at whole payloads.
        stage
        if stage.name.endswith(f"-{LATE_ROWS}")
        else replace(stage, edges=tuple(prune(edge, needed) for edge in stage.edges))
        for stage in compiler.stages
    )
    indexes = {Address.stage(stage.name): index for index, stage in enumerate(stages)}
    outputs = tuple(indexes[each] for each in compiler.outputs)
    return PhysicalPlan(stages, outputs, compiler.sources)


class _Compiler:
    def __init__(
        self,
        roots: Sequence[Node],
        tables: frozenset[str],
        *,
        routed: bool,
        late: frozenset[str] = frozenset(),
        replayable: bool = False,
    ) -> None:
        self._replayable = replayable
        self._tables = tables
        self._late = late
        self._routed = routed
        self.stages: list[Stage] = []
        self.outputs: list[Address] = []
        self.sources: dict[str, Source] = {}
        self._parts_of: dict[Node, list[_PlanPart]] = {}
        self._readers = _count_readers(roots)

    def parts(self, node: Node) -> list[_PlanPart]:
        """The ways out of a node; a node that occurs twice is compiled once."""
        if node not in self._parts_of:
            found = self._parts(node)
            if self._readers[node] > 1:
                found = [replace(part, shared=True) for part in found]
            self._parts_of[node] = found
        return self._parts_of[node]

    def _parts(self, node: Node) -> list[_PlanPart]:
        if isinstance(node, Source):
            declared = self.sources.setdefault(node.name, node)
            if declared != node:
                raise PlanError(
                    f"two different sources are named '{node.name}'",
                    hint="give every source its own name",
                )
            return [_PlanPart(Address.source(node.name), (), None)]
        if isinstance(node, Union):
            return [part for input in node.inputs for part in self.parts(input)]
        lookup = LookupKernel.of(node, self._tables) if isinstance(node, Join) else None
        if lookup is not None:
            parts = self.parts(node.inputs[lookup.side])
            return [replace(part, chain=(*part.chain, lookup)) for part in parts]
        kernel = kernel_of(node)
        if isinstance(kernel, Placement):
            sides = [self.parts(input) for input in node.inputs]
            if self._replayable:
                kernel = replace(kernel, kernel=kernel.kernel.replayable())
            if kernel.kernel.remembers_events:
                sides = list(map(self.by_snapshots, node.inputs, sides))
            return self.keyed(kernel, sides)
        (input,) = node.inputs
        renames = node if isinstance(node, Map) else None
        return [
            replace(
                part,
                chain=(*part.chain, kernel),
                colocated_by=_renamed(part.colocated_by, renames) if renames else part.colocated_by,
                route=_rerouted(part.route, renames) if renames else part.route,
            )
            for part in self.parts(input)
        ]

    def by_snapshots(self, node: Node, parts: list[_PlanPart]) -> list[_PlanPart]:
        """The ways out of a node; rows of sources that may come late are coalesced."""
        late = [
            part for part in parts if part.upstream.is_source and part.upstream.name in self._late
        ]
        if not late or node.properties.only_points:
            # A late point is over: nothing of it enters the query.
            return parts
        return [
            *(part for part in parts if part not in late),
            *self.keyed(coalesce_placement(node, LATE_ROWS), [late]),
        ]

    def keyed(
        self, placement: Placement, sides: list[list[_PlanPart]], *, anywhere: bool = False
    ) -> list[_PlanPart]:
        """Put a stateful kernel behind its inputs, in a stage of its own or in the input's."""
        colocated_by = placement.colocated_by
        if len(sides) == 1 and len(sides[0]) == 1 and self._stays(sides[0][0], placement, anywhere):
            (part,) = sides[0]
            at = self._stage_index(part.upstream)
            stage = self.stages[at]
            kernel = self._in_stage(stage, placement, part.route)
            kernels = (*stage.kernels, *part.chain, kernel)
            self.stages[at] = replace(stage, kernels=kernels, schema=kernel.schema)
            colocated_by = part.colocated_by if colocated_by is None else colocated_by
            route = _carried(part.route, placement)
            return [_PlanPart(part.upstream, (), colocated_by, sent=route, route=route)]
        kernel = placement.kernel.routed(OWN) if self._routed else placement.kernel
        sharded = colocated_by is None or bool(colocated_by)
        parts = [(part, side) for side, members in enumerate(sides) for part in members]
        stage = Stage("", (), (kernel,), sharded, kernel.schema)
        return [self._new_stage(placement.kind, parts, stage, colocated_by, placement.route)]

    def _in_stage(self, stage: Stage, placement: Placement, route: Route | None) -> Stateful:
        """A kernel that goes on where its input is, which knows how rows tell their shard."""
        if not self._routed:
            return placement.kernel
        if not stage.sharded:
            return placement.kernel.routed(OWN)
        assert route is not None
        return placement.kernel.routed(OWN if _is_own(route, placement) else route)

    def _stage_index(self, upstream: Address) -> int:
        return [Address.stage(stage.name) for stage in self.stages].index(upstream)

    def _stays(self, part: _PlanPart, placement: Placement, anywhere: bool) -> bool:
        """Whether rows of one key are together already, in the stage they come from."""
        if part.upstream.is_source or part.shared:
            return False
        stage = self.stages[self._stage_index(part.upstream)]
        if not stage.sharded:
            return True
        if self._routed and (part.route is None or _is_apart(stage, placement.kernel)):
            return False
        if placement.alone and not (part.route and _is_own(part.route, placement)):
            return False
        if anywhere:
            return True
        if part.colocated_by is None or placement.colocated_by is None:
            return False
        columns = (
            placement.colocated_by
            if placement.keys is None
            else {key.is_column for key in placement.keys.values() if key.is_column is not None}
        )
        return part.colocated_by <= columns

    def _check_copies(
        self, parts: list[tuple[_PlanPart, int]], kernels: tuple[Kernel, ...]
    ) -> None:
        """Copies of a stream are for operators that know what to do with them."""
        head = kernels[0] if kernels else None
        is_merge = isinstance(head, Stateful) and head.takes_copies
        names = [part.upstream.name for part, _ in parts]
        sources = [part.upstream.name for part, _ in parts if part.upstream.is_source]
        several = [name for name in sources if self.sources[name].copies]
        if not several:
            return
        if not is_merge or any(part.chain for part, _ in parts):
            raise PlanError(
                f"source '{several[0]}' is several copies of one stream",
                where="an operator other than a merge would read them",
                hint="merge them first, then filter, map and aggregate the result",
            )
        if len(names) > 1:
            raise PlanError(
                f"a merge reads the copies of '{several[0]}' and something else",
                where=f"it reads {', '.join(names)}",
                hint="merge copies of one source only, and merge the result with the others",
            )

    def _new_stage(
        self,
        kind: str,
        parts: list[tuple[_PlanPart, int]],
        stage: Stage,
        colocated_by: frozenset[str] | None,
        route: Route | None,
    ) -> _PlanPart:
        self._check_copies(parts, stage.kernels)
        edges = tuple(Edge(part.upstream, part.chain, side=side) for part, side in parts)
        name = f"{len(self.stages)}-{kind}"
        self.stages.append(replace(stage, name=name, edges=edges))
        return _PlanPart(Address.stage(name), (), colocated_by, sent=route, route=route)

    def final(self, parts: list[_PlanPart], schema: pa.Schema) -> list[_PlanPart]:
        """Let only what is final pass, where it is; before what would take its key away."""
        only = parts[0] if len(parts) == 1 else None
        if (
            self._routed
            and only is not None
            and only.sent is not None
            and only.route is None
            and all(isinstance(step, MapKernel | FilterKernel) for step in only.chain)
            and not only.shared
        ):
            before = replace(only, chain=(), route=only.sent)
            held = final_placement(self.stages[self._stage_index(only.upstream)].schema)
            (part,) = self.keyed(held, [[before]], anywhere=True)
            return [replace(part, chain=only.chain)]
        return self.keyed(final_placement(schema), [parts], anywhere=True)

    def finish(self, parts: list[_PlanPart], node: Node) -> None:
        """The tail: in the stage that all comes from, else a stage that collects."""
        only = parts[0] if len(parts) == 1 else None
        if only is None or only.upstream.is_source or (only.shared and only.chain):
            members = [(part, 0) for part in parts]
            stage = Stage("", (), (), True, node.schema)
            only = self._new_stage("collect", members, stage, None, None)
        elif not only.shared:
            at = self._stage_index(only.upstream)
            kernels = (*self.stages[at].kernels, *only.chain)
            self.stages[at] = replace(self.stages[at], kernels=kernels, schema=node.schema)
        self.outputs.append(only.upstream)


def _count_readers(roots: Sequence[Node]) -> Counter[Node]:
    """How many others read each node; whoever asks for a plan reads it."""
    readers: Counter[Node] = Counter(roots)
    seen: set[Node] = set()
    waiting = [*roots]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        readers.update(node.inputs)
        waiting += node.inputs
    return readers


def _renamed(names: frozenset[str] | None, map_: Map) -> frozenset[str] | None:
    """The partitioning columns after a projection, if all of them are still there."""
    if names is None:
        return None
    kept = {part.is_column: name for name, part in map_.columns if part.is_column is not None}
    if not names <= kept.keys():
        return None
    return frozenset(kept[name] for name in names)


def _rerouted(route: Route | None, map_: Map) -> Route | None:
    """The route after a projection, if all that it needs is still there."""
    kept = {part.is_column: name for name, part in map_.columns if part.is_column is not None}
    return None if route is None else route.renamed(kept, map_.schema)


def _carried(route: Route | None, placement: Placement) -> Route | None:
    """The route behind an operator that went on where its input was."""
    if route is None or placement.names is None:
        return route
    return route.renamed(placement.names, placement.kernel.schema)


def _is_own(route: Route, placement: Placement) -> bool:
    """Whether the ids that rows were sent by are those that a kernel has for them."""
    # What is not grouped goes by its payload, which leaves as it came.
    whole = placement.route
    own = whole.keys if whole is not None and placement.keys is None else None
    own = tuple(placement.keys.values()) if placement.keys is not None else own
    return own is not None and route.same_as(own)


def _is_apart(stage: Stage, kernel: Stateful) -> bool:
    """Whether shards of a stage may be settled differently, which matters to a kernel."""
    before = [each for each in stage.kernels if isinstance(each, Stateful)]
    return kernel.looks_back and any(each.promises_by_state for each in before)


def tables_of(plan: PhysicalPlan) -> dict[str, Source]:
    """The relations that are looked up in, by name."""
    steps = [step for stage in plan.stages for edge in stage.edges for step in edge.chain]
    every: list[Kernel] = [*steps, *(kernel for stage in plan.stages for kernel in stage.kernels)]
    lookups = [step for step in every if isinstance(step, LookupKernel)]
    return {step.relation.name: step.relation for step in lookups}


def with_tables(plan: PhysicalPlan, paths: Mapping[str, str]) -> PhysicalPlan:
    """The same plan, whose lookups know the files of their tables."""

    def with_path(step: KernelT) -> KernelT:
        if not isinstance(step, LookupKernel):
            return step
        return replace(step, path=paths[step.relation.name])

    stages = tuple(
        replace(
            stage,
            edges=tuple(
                replace(edge, chain=tuple(map(with_path, edge.chain))) for edge in stage.edges
            ),
            kernels=tuple(map(with_path, stage.kernels)),
        )
        for stage in plan.stages
    )
    return replace(plan, stages=stages)


__all__ = [
    "Edge",
    "Emission",
    "PhysicalPlan",
    "Stage",
    "StageState",
    "compile_plan",
    "tables_of",
    "with_tables",
]
