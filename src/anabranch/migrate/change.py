"""The plans of a change: the one in which both answers are computed, and the one behind it.

Nothing here runs or writes anything: the same functions serve queries on Spark and tests without.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, final

import pyarrow as pa

from anabranch.algebra.analysis.read_history import ReadHistory
from anabranch.algebra.clip import Clip
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.union import Union
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.kernels.modules.apply_operator import ApplyOperatorKernel
from anabranch.kernels.modules.reopening import unreopenable
from anabranch.kernels.plan.combining_plans import (
    OutputChange,
    after_change,
    combined,
    in_change,
    needed_stages,
    same_stages,
    state_fingerprints,
)
from anabranch.kernels.plan.stage import PhysicalPlan, StageState
from anabranch.language.text.types import type_name
from anabranch.model.time import BEGINNING, FOREVER, Time


class Compile(Protocol):
    """Compiles plans as those of the running query were compiled."""

    def __call__(self, *nodes: Node) -> PhysicalPlan:
        """Compile plans; what they have in common runs once."""


ReadStates = Callable[[str], Iterable[tuple[int, StageState]]]
"""Reads what a stage of the running query remembers, shard by shard."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPlan:
    """What a query computes at present.

    Attributes:
        plan: Its stages.
        nodes: Its logical plans, one per output.
        ends: Per source the greatest end of all events that were read; FOREVER if not known.
        stables: How far each output is settled.
        tables: The relations that are looked up in.
        compile: How its plans are compiled.
        states: What a stage remembers, shard by shard.
        revised: The sources whose past may be corrected.
    """

    plan: PhysicalPlan
    nodes: tuple[Node, ...]
    ends: Mapping[str, Time]
    stables: tuple[Time, ...]
    tables: Collection[str]
    compile: Compile
    states: ReadStates = lambda _: ()
    revised: Collection[str] = frozenset()

    def history(self, kept: Collection[Node], reopened: Mapping[Node, Time]) -> ReadHistory:
        """What it has read, for a plan that takes over some of its operators."""
        return ReadHistory(self.ends, kept, self.tables, reopened, self.revised)


@final
@dataclass(frozen=True, slots=True)
class NewAnswer:
    """What an output of a running query becomes, or a query that is added to it.

    Attributes:
        output: The number of the output; None: the query is added.
        node: The new plan.
        heals: The output is coalesced, the old answer together with the new one; `node` is what
            comes below that. The state of this coalesce comes from what has left (`handover.py`).
    """

    output: int | None
    node: Node
    heals: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """A change of outputs of a running query at one instant, or a query that is added to it.

    Attributes:
        at: The instant from which on the new answers count; BEGINNING: always.
        both: The plan in which both answers are computed.
        both_nodes: What that means, per output.
        then: The plan without the old answer.
        then_nodes: What that means.
        kept: The stages of the new answer that go on with state of the running query.
        added: The stages that begin.
        reopened: Of those, stages that take over the state of one of the running query, by name.
    """

    at: Time
    both: PhysicalPlan
    both_nodes: tuple[Node, ...]
    then: PhysicalPlan
    then_nodes: tuple[Node, ...]
    kept: tuple[str, ...]
    added: tuple[str, ...]
    reopened: Mapping[str, str]


def kept_operators(running: RunningPlan, new: Iterable[Node]) -> frozenset[Node]:
    """The operators with state of new plans whose state the running query has.

    An operator is kept if a stage of its own computes it in both.
    """
    nodes = tuple(new)
    there = {each for node in running.nodes for each in node.walk() if each.remembers}
    common = {each for node in nodes for each in node.walk() if each in there}
    if not common:
        return frozenset()
    old = set(state_fingerprints(running.plan).values())
    own = set(state_fingerprints(running.compile(*nodes)).values())

    def is_kept(node: Node) -> bool:
        alone = running.compile(node)
        (index,) = alone.outputs
        fingerprint = state_fingerprints(alone)[alone.stages[index].name]
        return fingerprint in old and fingerprint in own

    return frozenset(each for each in common if is_kept(each))


@final
@dataclass(frozen=True, slots=True)
class TakenOver:
    """User operators with other code that go on with the state of the code before.

    Attributes:
        stages: For the state of each the stage of the running query that has it: by fingerprint.
        ends: When the answers are over that their state does not know any more.
    """

    stages: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[Node, Time] = field(default_factory=dict)


def taken_over(running: RunningPlan, before: Mapping[Node, Node]) -> tuple[TakenOver, str | None]:
    """The operators whose state other code can go on with; or why one cannot (then none).

    Args:
        running: What the query computes at present.
        before: For each operator with other code the one that runs.
    """
    there = {fingerprint: name for name, fingerprint in state_fingerprints(running.plan).items()}
    stages: dict[str, str] = {}
    ends: dict[Node, Time] = {}
    for now, was in before.items():
        old, new = running.compile(was), running.compile(now)
        (at,) = old.outputs
        stage = there.get(state_fingerprints(old)[old.stages[at].name])
        own = new.stages[at]
        last = own.kernels[-1] if own.kernels else None
        if stage is None or not isinstance(last, ApplyOperatorKernel):
            return TakenOver(), f"the state of '{was.label}' is not kept by itself"
        why = unreopenable(last)
        if why is not None:
            return TakenOver(), why
        stages[state_fingerprints(new)[own.name]] = stage
        ends[now] = Time(
            max((int(state[-1].stable) for _, state in running.states(stage)), default=BEGINNING)
        )
    if not ends:
        return TakenOver(), "no user operator of the query has got other code"
    return TakenOver(stages, ends), None


def state_instant(
    running: RunningPlan, new: Sequence[NewAnswer], operators: TakenOver
) -> tuple[Time, str | None]:
    """The least T where user operators go on with their state, and why there is none."""
    kept = kept_operators(running, (each.node for each in new))
    history = running.history(kept, operators.ends)
    at = BEGINNING
    for each in new:
        why = history.unclippable(each.node)
        if why is not None:
            return FOREVER, why
        settled = BEGINNING if each.output is None else running.stables[each.output]
        at = Time(max(at, history.end(each.node), settled))
    return at, None


def clip_instant(running: RunningPlan, new: Sequence[NewAnswer]) -> tuple[Time, str | None]:
    """The least T for a change by clip, and why there is none (then T is FOREVER)."""
    history = running.history(kept_operators(running, (each.node for each in new)), {})
    at = BEGINNING
    for each in new:
        why = history.unclippable(each.node)
        if why is not None:
            return FOREVER, why
        at = Time(max(at, history.end(each.node)))
        if each.output is None:
            continue
        old = running.nodes[each.output]
        everything = frozenset(each for each in old.walk() if each.remembers)
        before = running.history(everything, {})
        at = Time(max(at, before.end(old), running.stables[each.output]))
        if at == FOREVER:
            return FOREVER, "results of the old query hold for ever"
    return at, None


def planned_change(
    running: RunningPlan,
    new: Sequence[NewAnswer],
    at: Time,
    *,
    seeded: bool = False,
    at_once: bool = False,
    operators: TakenOver | None = None,
) -> PlannedChange:
    """The plans of a change at an instant.

    All new answers count from the same T on, and what they have in common runs once.

    Args:
        running: What the query computes at present.
        new: What outputs become; a query that is added comes alone.
        at: T. What the new plans say before does not count.
        seeded: They begin with the state of all that was read, and not with nothing.
        at_once: Nothing before T can change any more: the old plan is not needed.
        operators: User operators that go on with the state of other code.
    """
    kept = kept_operators(running, (each.node for each in new))
    operators = operators or TakenOver()
    history = running.history(kept, operators.ends)
    begun = [each.node if seeded else _begun(running, history, each.node) for each in new]
    compiled = running.compile(*begun)
    # The new plan may read any stage of those that run, before what these do behind it.
    changing = range(len(running.nodes))
    both = combined(running.plan, compiled, changing=changing)
    answers = [OutputChange(node, both.old[number]) for number, node in enumerate(running.nodes)]
    both_nodes, then_nodes = list(running.nodes), list(running.nodes)
    for each, way, node in zip(new, both.new, begun, strict=True):
        live: Node = each.node if at == BEGINNING else Clip(input=node, start=at)
        # Its figures are found by the plan behind the change.
        joined = Coalesce(input=live) if each.heals else None
        live = joined or live
        if each.output is None:
            answers.append(OutputChange(each.node, None, way, at))
            both_nodes.append(live)
            then_nodes.append(live)
            continue
        old_way = both.old[each.output]
        answers[each.output] = OutputChange(each.node, old_way, way, at, heals=joined)
        if at > BEGINNING:
            old = Clip(input=running.nodes[each.output], end=at)
            fused = Union(inputs=(old, Clip(input=each.node, start=at)))
            both_nodes[each.output] = Coalesce(input=fused) if each.heals else fused
        then_nodes[each.output] = live
    then = after_change(both, answers)
    is_added = all(each.output is None for each in new)
    is_short = is_added or at == BEGINNING or at_once
    during = then if is_short else in_change(both, answers)
    before = same_stages(running.plan, during)
    own = state_fingerprints(compiled)
    now = state_fingerprints(during)
    of_new = {name for name, each in now.items() if each in own.values()}
    added = tuple(stage.name for stage in during.stages if stage.name not in before)
    return PlannedChange(
        at=at,
        both=during,
        both_nodes=tuple(then_nodes if is_short else both_nodes),
        then=then,
        then_nodes=tuple(then_nodes),
        kept=tuple(sorted(of_new & before.keys())),
        added=added,
        reopened={
            name: operators.stages[now[name]] for name in added if now[name] in operators.stages
        },
    )


def _begun(running: RunningPlan, history: ReadHistory, new: Node) -> Node:
    """A plan that begins with nothing, but for the operators that are kept."""
    begun, since = history.clipped(new), history.end(new)
    is_new = new not in history.kept
    if running.revised and is_new and since > BEGINNING and history.tells_of_earlier(new):
        # Late rows are coalesced below what holds results back, which no operator of the plan says.
        return Clip(input=begun, start=since)
    return begun


def meant_at_all_times(before: Node, new: Node, at: Time) -> Node:
    """What an output means that has changed: the old answer before T, the new one from T on.

    Corrections of the past are answered by this, also long after the change.
    """
    if at == BEGINNING:
        return new
    return Union(inputs=(Clip(input=before, end=at), Clip(input=new, start=at)))


def plan_without(running: RunningPlan, output: int) -> PhysicalPlan:
    """The stages that the other outputs need: they go on as they were."""
    plan = running.plan
    others = [index for number, index in enumerate(plan.outputs) if number != output]
    return needed_stages(plan, [plan.stages[index].name for index in others])


def with_columns_of(new: Node, old: Node, *, where: str) -> Node:
    """The new plan with its columns in the order of the old one.

    Raises:
        PlanError: It has other columns, or counts time in another way.
    """
    was, now = old.schema, new.schema
    if clock_of(old) != clock_of(new):
        raise PlanError(
            "the changed query counts time in another way",
            where=where,
            hint="results before and after the change are one stream: read sources with the same "
            "CHRONON",
        )
    if was.equals(now):
        return new
    wrong = _other_columns(
        {each.name: each.type for each in was}, {each.name: each.type for each in now}
    )
    if wrong:
        raise PlanError(
            f"the changed query has other columns: {wrong[0]}",
            where=where,
            hint=f"the output has the columns {_columns(old)}; give the new query the same names "
            "and types (CAST, AS), in any order, or start it with an output of its own",
        )
    columns = tuple((name, Expression.column(name, now)) for name in was.names)
    return Map(input=new, columns=columns)


def _other_columns(was: Mapping[str, pa.DataType], now: Mapping[str, pa.DataType]) -> Sequence[str]:
    found = [f"'{name}' is missing" for name in was if name not in now]
    found += [f"'{name}' is new" for name in now if name not in was]
    found += [
        f"'{name}' is {type_name(now[name])}, and was {type_name(was[name])}"
        for name in was
        if name in now and now[name] != was[name]
    ]
    return found


def _columns(node: Node) -> str:
    return ", ".join(f"{each.name} {type_name(each.type)}" for each in node.schema)
