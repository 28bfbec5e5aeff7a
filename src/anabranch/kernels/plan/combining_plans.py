"""Two physical plans in one, for a query that changes from one to the other while it runs.

The old plan stays as it is, stage by stage, so that its state is found again. Stages of the new
plan that compute the same from the same are those of the old one. The two answers meet in a *fuse*:
a stage that collects what the old plan says before an instant T and what the new one says from
T on. Once nothing before T can change any more, the old plan is taken out again (`after_change`).

A fuse cuts lifetimes at T. Where an output is to have the longest lifetimes, both answers meet in a
stage that *heals*: a coalesce, which begins with what has left and stays when the old plan goes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

from anabranch.algebra.clip import Clip
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.node import Node
from anabranch.errors import PlanError
from anabranch.kernels.contract.kernel import Kernel, Stateful, Stateless
from anabranch.kernels.contract.routing import OWN
from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.catalog import coalesce_placement
from anabranch.kernels.plan.identity import stage_fingerprints
from anabranch.kernels.plan.stage import HEAL, Edge, PhysicalPlan, Stage
from anabranch.kernels.stateless.retime import RetimeKernel
from anabranch.model.time import BEGINNING, Time

FUSE: Final = "fuse"
"""What stages are called that collect the answers of two plans."""


@final
@dataclass(frozen=True, slots=True)
class Way:
    """How the rows of an output leave a plan: from a stage, through steps without memory."""

    stage: str
    chain: tuple[Stateless, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class OutputChange:
    """One output of a plan in change.

    Attributes:
        node: The logical plan of what leaves last, whose schema and clock the output has.
        old: Where the old answer comes from; None for a query that begins.
        new: Where the new answer comes from; None for a query that stays as it is.
        at: The instant from which on the new answer counts; BEGINNING: always.
        heals: What joins lifetimes of the old answer and of the new one at T; None: they are cut.
    """

    node: Node
    old: Way | None
    new: Way | None = None
    at: Time = BEGINNING
    heals: Coalesce | None = None


@final
@dataclass(frozen=True, slots=True)
class CombinedPlans:
    """The stages of two plans, without outputs, and the ways out of both."""

    plan: PhysicalPlan
    old: tuple[Way, ...]
    new: tuple[Way, ...]


def combined(
    old: PhysicalPlan, new: PhysicalPlan, *, changing: Collection[int] = ()
) -> CombinedPlans:
    """The stages of an old plan, and behind them those of a new one that are not among them.

    `changing` are the outputs of the old plan that change: what their last stages do without
    memory may be done behind them, so that the new plan can read the same stage.

    Raises:
        PlanError: A source is not what it was.
    """
    for name, source in new.sources.items():
        if old.sources.get(name, source) != source:
            raise PlanError(
                f"the source '{name}' is declared in another way than in the running query",
                where="the changed query",
                hint="declare the stream as it was: columns, times and keys of a source that is "
                "being read cannot change",
            )
    found = {fingerprint: name for name, fingerprint in stage_fingerprints(old).items()}
    full, bare = stage_fingerprints(new), state_fingerprints(new)
    wanted = {bare[name] for name, fingerprint in full.items() if fingerprint not in found}
    stages, ways = _with_open_tails(old, changing, wanted)
    opened = {way.stage: way.chain for way in ways}
    # Stages whose rows leave as their state has them: any steps may follow.
    plain = {
        fingerprint: stage.name
        for stage, fingerprint in zip(stages, state_fingerprints(old).values(), strict=True)
        if remembers(stage) and not tail_of(stage)
    }
    names: dict[str, Way] = {}
    number = _first_number(old)
    for stage in new.stages:
        same, below = found.get(full[stage.name]), plain.get(bare[stage.name])
        if same is not None:
            names[stage.name] = Way(same, opened.get(same, ()))
        elif below is not None:
            names[stage.name] = Way(below, tail_of(stage))
        else:
            edges = tuple(
                edge if edge.upstream.is_source else _behind(edge, names[edge.upstream.name])
                for edge in stage.edges
            )
            name = f"{number}-{stage.name.partition('-')[2]}"
            number += 1
            names[stage.name] = Way(name)
            stages.append(replace(stage, name=name, edges=edges))
    return CombinedPlans(
        plan=PhysicalPlan(tuple(stages), (), {**old.sources, **new.sources}),
        old=tuple(ways),
        new=tuple(names[new.stages[index].name] for index in new.outputs),
    )


def in_change(both: CombinedPlans, answers: Sequence[OutputChange]) -> PhysicalPlan:
    """The plan while both answers are computed: each output is old before T and new from T on."""
    stages = list(both.plan.stages)
    outputs: list[str] = []
    number = _first_number(both.plan)
    healing = _healing_names(both, answers)
    for index, answer in enumerate(answers):
        edges = []
        if answer.old is not None:
            until = None if answer.new is None else answer.at
            edges.append(_clipped_edge(answer.old, answer.node, end=until))
        if answer.new is not None:
            edges.append(_clipped_edge(answer.new, answer.node, start=answer.at))
        if answer.heals is not None:
            stages.append(_healing_stage(healing[index], edges, answer.heals))
            outputs.append(stages[-1].name)
            continue
        only = edges[0]
        if len(edges) == 1 and not only.chain:
            outputs.append(only.upstream.name)
            continue
        name = f"{number}-{FUSE}"
        number += 1
        stages.append(Stage(name, tuple(edges), (), True, answer.node.schema))
        outputs.append(name)
    return needed_stages(PhysicalPlan(tuple(stages), (), both.plan.sources), outputs)


def after_change(both: CombinedPlans, answers: Sequence[OutputChange]) -> PhysicalPlan:
    """The plan without the old answers of outputs that have a new one.

    The clip at T stays. Results of the new plan that hold at T have left as events that begin
    there, and later adjusts have to name them so.
    """
    ways = [answer.old if answer.new is None else answer.new for answer in answers]
    assert all(way is not None for way in ways)
    stages = list(both.plan.stages)
    outputs: list[str] = []
    number = _first_number(both.plan)
    healing = _healing_names(both, answers)
    for output, (answer, way) in enumerate(zip(answers, ways, strict=True)):
        assert way is not None
        at = BEGINNING if answer.new is None else answer.at
        edge = _clipped_edge(way, answer.node, start=at)
        if answer.heals is not None:
            stages.append(_healing_stage(healing[output], [edge], answer.heals))
            outputs.append(stages[-1].name)
            continue
        if not edge.chain:
            outputs.append(way.stage)
            continue
        index = next(n for n, stage in enumerate(stages) if stage.name == way.stage)
        # Two outputs that become the same query leave by one way.
        if _is_read(way.stage, stages, [*ways[:output], *ways[output + 1 :]]):
            name = f"{number}-{FUSE}"
            number += 1
            stages.append(Stage(name, (edge,), (), True, answer.node.schema))
            outputs.append(name)
            continue
        stages[index] = _with_tail(stages[index], edge.chain, answer.node, both.plan)
        outputs.append(way.stage)
    return needed_stages(PhysicalPlan(tuple(stages), (), both.plan.sources), outputs)


def needed_stages(plan: PhysicalPlan, outputs: Sequence[str]) -> PhysicalPlan:
    """The stages that these outputs need, and the sources that those read."""
    by_name = {stage.name: stage for stage in plan.stages}
    needed: set[str] = set()
    waiting = [*outputs]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            edges = by_name[name].edges
            waiting += [edge.upstream.name for edge in edges if not edge.upstream.is_source]
    stages = tuple(stage for stage in plan.stages if stage.name in needed)
    read = {edge.upstream.name for each in stages for edge in each.edges if edge.upstream.is_source}
    indexes = {stage.name: index for index, stage in enumerate(stages)}
    sources = {name: source for name, source in plan.sources.items() if name in read}
    return PhysicalPlan(stages, tuple(indexes[name] for name in outputs), sources)


def state_fingerprints(plan: PhysicalPlan) -> dict[str, str]:
    """Per stage a short hash of what its state is made from: without steps behind the state."""
    bare = tuple(
        replace(stage, kernels=_until_state(stage)) if remembers(stage) else stage
        for stage in plan.stages
    )
    # Only stages that nobody reads have a tail, so the fingerprints below stay what they are.
    return stage_fingerprints(replace(plan, stages=bare))


def same_stages(old: PhysicalPlan, new: PhysicalPlan) -> dict[str, str]:
    """The stages of a new plan that go on with the state of one of the old, by name.

    Of several that compute the same, each goes on with its own: two never do with one as long as
    there is another.
    """
    was, now = state_fingerprints(old), state_fingerprints(new)
    before: dict[str, list[str]] = {}
    for name, fingerprint in was.items():
        before.setdefault(fingerprint, []).append(name)
    own = {name for name, each in now.items() if was.get(name) == each}
    found: dict[str, str] = {}
    for name, fingerprint in now.items():
        same = before.get(fingerprint, [])
        taken = own | set(found.values())
        free = [each for each in same if each not in taken]
        if same:
            found[name] = name if name in own else (free or same)[0]
    return found


def remembers(stage: Stage) -> bool:
    """Whether a stage has state."""
    return any(isinstance(kernel, Stateful) for kernel in stage.kernels)


def tail_of(stage: Stage) -> tuple[Stateless, ...]:
    """What a stage does behind its last operator with state; nothing where it has no state."""
    if not remembers(stage):
        return ()
    tail = stage.kernels[len(_until_state(stage)) :]
    return tuple(kernel for kernel in tail if isinstance(kernel, Stateless))


def _until_state(stage: Stage) -> tuple[Kernel, ...]:
    last = max((n for n, k in enumerate(stage.kernels) if isinstance(k, Stateful)), default=-1)
    return stage.kernels[: last + 1]


def _with_open_tails(
    old: PhysicalPlan, changing: Collection[int], wanted: Collection[str]
) -> tuple[list[Stage], list[Way]]:
    """The stages and ways out of a plan; `wanted` is read before the tail of its stage."""
    stages = list(old.stages)
    ways = [Way(old.stages[index].name) for index in old.outputs]
    bare = state_fingerprints(old)
    for index in {old.outputs[output] for output in changing}:
        stage = old.stages[index]
        own = [n for n, at in enumerate(old.outputs) if at == index]
        tail = tail_of(stage)
        if tail and bare[stage.name] in wanted and set(own) <= set(changing):
            kernels = _until_state(stage)
            stages[index] = replace(stage, kernels=kernels, schema=kernels[-1].schema)
            for output in own:
                ways[output] = Way(stage.name, tail)
    return stages, ways


def _behind(edge: Edge, way: Way) -> Edge:
    """An edge from where the rows of its upstream are now."""
    return replace(edge, upstream=Address.stage(way.stage), chain=(*way.chain, *edge.chain))


def _clipped_edge(
    way: Way, node: Node, *, start: Time | None = None, end: Time | None = None
) -> Edge:
    chain = way.chain
    start = None if start == BEGINNING else start
    if start is not None or end is not None:
        chain = (*chain, RetimeKernel(Clip(input=node, start=start, end=end)))
    return Edge(Address.stage(way.stage), chain)


def _healing_names(both: CombinedPlans, answers: Sequence[OutputChange]) -> dict[int, str]:
    """What the stages are called that heal, by output.

    Each has one name during the change and behind it, which tells whose state it goes on with: a
    number above those of all fuses.
    """
    first = _first_number(both.plan) + len(answers)
    outputs = [output for output, answer in enumerate(answers) if answer.heals is not None]
    return {output: f"{first + number}-{HEAL}" for number, output in enumerate(outputs)}


def _healing_stage(name: str, edges: Sequence[Edge], node: Coalesce) -> Stage:
    """A coalesce of what comes through some edges, in a stage of its own."""
    kernel = coalesce_placement(node.input, HEAL).kernel.routed(OWN)
    return Stage(name, tuple(edges), (kernel,), True, kernel.schema)


def _is_read(name: str, stages: Sequence[Stage], others: Sequence[Way | None]) -> bool:
    """Whether anybody else reads a stage."""
    by_stage = any(edge.upstream == Address.stage(name) for each in stages for edge in each.edges)
    return by_stage or any(way is not None and way.stage == name for way in others)


def _with_tail(stage: Stage, chain: tuple[Stateless, ...], node: Node, plan: PhysicalPlan) -> Stage:
    """A stage that does the steps itself; one that only collects inserts has them on its edges.

    There, senders may deliver what comes right from a source. Adjusts must not leave that way: in
    the batch of the change they would stand before what is handed over.
    """
    sources = [plan.sources[e.upstream.name] for e in stage.edges if e.upstream.is_source]
    if not stage.kernels and all(source.insert_only for source in sources):
        edges = tuple(replace(edge, chain=(*edge.chain, *chain)) for edge in stage.edges)
        return replace(stage, edges=edges, schema=node.schema)
    return replace(stage, kernels=(*stage.kernels, *chain), schema=node.schema)


def _first_number(plan: PhysicalPlan) -> int:
    """The number of the next stage: one above all that there are."""
    numbers = [int(stage.name.partition("-")[0]) for stage in plan.stages]
    return max(numbers, default=-1) + 1
