"""Which operator runs where in a plan, and what its workers have counted of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.kernels.contract.kernel import Kernel
from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.stage import PhysicalPlan, Stage
from anabranch.model.identity import KnownHashes, fingerprint
from anabranch.optimizer.cost import CostModel
from anabranch.optimizer.statistics import PlanStatistics
from anabranch.runtime.messages.counters import StageCounters
from anabranch.runtime.messages.measured import OperatorCounters, added
from anabranch.runtime.store.query_statistics import PlanLine


@final
@dataclass(frozen=True, slots=True)
class Slot:
    """Where an operator runs: behind an edge of a stage, or in the stage.

    `edge` is None in the stage; `index` is its position there.
    """

    stage: str
    edge: int | None
    index: int


@final
@dataclass(frozen=True, slots=True)
class PlacedOperator:
    """An operator of a plan.

    Attributes:
        label: What people know it by.
        node: What it computes; None where that is no logical operator.
        sources: The names of the sources below it.
        slots: Where it runs.
    """

    label: str
    node: Node | None
    sources: tuple[str, ...]
    slots: tuple[Slot, ...]


def roots_of(plan: PhysicalPlan, output: int) -> tuple[Node, ...]:
    """The logical plans that an output is made of: one, or several that are united."""
    stages = {Address.stage(stage.name): stage for stage in plan.stages}
    return tuple(dict.fromkeys(_ends(plan, stages, plan.stages[plan.outputs[output]])))


def _ends(plan: PhysicalPlan, stages: Mapping[Address, Stage], stage: Stage) -> Iterator[Node]:
    last = next((node for each in reversed(stage.kernels) if (node := _node(each))), None)
    if last is not None:
        yield last
        return
    for edge in stage.edges:
        behind = next((node for each in reversed(edge.chain) if (node := _node(each))), None)
        if behind is not None:
            yield behind
        elif edge.upstream.is_source:
            yield plan.sources[edge.upstream.name]
        else:
            yield from _ends(plan, stages, stages[edge.upstream])


def plan_lines(
    roots: Sequence[Node],
    priced: PlanStatistics | CostModel,
    known: KnownHashes | None = None,
) -> Iterator[PlanLine]:
    """A plan as `explain` shows it, with what was expected of it.

    Plans that share parts are priced by one model, and hashed with one `known`.
    """
    model = priced if isinstance(priced, CostModel) else CostModel(priced)

    def lines(node: Node, depth: int) -> Iterator[PlanLine]:
        yield PlanLine(
            depth=depth,
            label=node.label,
            signature=node.name if isinstance(node, Source) else fingerprint(node, known),
            rate=model.estimate(node).stream.rate,
            state=model.cost(node).state,
        )
        for below in node.inputs:
            yield from lines(below, depth + 1)

    for root in roots:
        yield from lines(root, 0)


def placed_operators(
    plan: PhysicalPlan, hashes: KnownHashes | None = None
) -> dict[str, PlacedOperator]:
    """Every operator by its signature, and where it runs.

    An operator without memory runs behind every edge that its rows go through. Behind edges of
    one upstream it does the same work again, and is measured once; parts of a union come from
    different ones, and add up.
    """
    found: dict[str, list[Slot]] = {}
    kernels: dict[str, Kernel] = {}
    taken: set[tuple[str, Address]] = set()
    for stage in plan.stages:
        for number, edge in enumerate(stage.edges):
            for index, step in enumerate(edge.chain):
                signature = _signature(step, hashes)
                if (signature, edge.upstream) in taken:
                    continue
                taken.add((signature, edge.upstream))
                kernels[signature] = step
                found.setdefault(signature, []).append(Slot(stage.name, number, index))
        for index, kernel in enumerate(stage.kernels):
            signature = _signature(kernel, hashes)
            kernels[signature] = kernel
            found.setdefault(signature, []).append(Slot(stage.name, None, index))
    return {
        signature: PlacedOperator(
            label=_label(_node(kernels[signature]), kernels[signature]),
            node=_node(kernels[signature]),
            sources=_sources_of(_node(kernels[signature])),
            slots=tuple(slots),
        )
        for signature, slots in found.items()
    }


@final
@dataclass(frozen=True, slots=True)
class SlotCounters:
    """What an operator did in one place: rows in by side, its counters, bytes of state."""

    rows_in: tuple[int, ...]
    own: OperatorCounters
    bytes: float = 0.0

    def side(self, number: int) -> int:
        """The rows of a side."""
        return self.rows_in[number] if number < len(self.rows_in) else 0


def counted(
    plan: PhysicalPlan, slot: Slot, stages: Mapping[str, Sequence[StageCounters]]
) -> SlotCounters:
    """What workers have counted of an operator in one place, in all shards."""
    shards = stages.get(slot.stage, ())
    edges = next((each.edges for each in shards if each.edges), ())
    if slot.edge is not None:
        if slot.edge >= len(edges):
            return SlotCounters((0,), OperatorCounters())
        edge = edges[slot.edge]
        if slot.index >= len(edge.steps):
            return SlotCounters((edge.rows if not slot.index else 0,), OperatorCounters())
        before = edge.rows if not slot.index else edge.steps[slot.index - 1].rows
        return SlotCounters((before,), edge.steps[slot.index])
    operators: tuple[OperatorCounters, ...] = ()
    for each in shards:
        operators = added(operators, each.operators)
    if slot.index >= len(operators):
        return SlotCounters((0,), OperatorCounters())
    own = operators[slot.index]
    held = sum(each.state_rows for each in operators)
    every = sum(each.state_bytes for each in shards)
    share = every * own.state_rows / held if held else 0.0
    if slot.index:
        return SlotCounters((operators[slot.index - 1].rows,), own, share)
    stage = next(each for each in plan.stages if each.name == slot.stage)
    sides = [0] * stage.sides
    for edge_, counted in zip(stage.edges, edges):
        sides[edge_.side] += counted.arrived
    return SlotCounters(tuple(sides), own, share)


def _node(kernel: Kernel) -> Node | None:
    """The logical operator that a kernel computes, where it is one."""
    found = getattr(kernel, "node", None)
    return found if isinstance(found, Node) else None


def _signature(kernel: Kernel, hashes: KnownHashes | None) -> str:
    node = _node(kernel)
    return fingerprint(kernel if node is None else node, hashes)


def _label(node: Node | None, kernel: Kernel) -> str:
    return kernel.label if node is None else node.label


def _sources_of(node: Node | None) -> tuple[str, ...]:
    if node is None:
        return ()
    return tuple(dict.fromkeys(each.name for each in node.walk() if isinstance(each, Source)))
