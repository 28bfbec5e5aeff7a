"""The plans of a change: the one in which both answers are computed, and the one behind it.

Nothing here runs or writes anything: the same functions serve queries on Spark and tests without.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from anabranch.algebra.analysis.read_history import ReadHistory
from anabranch.algebra.clip import Clip
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.union import Union
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.combining_plans import (
    OutputChange,
    after_change,
    combined,
    in_change,
    needed_stages,
    same_stages,
    state_fingerprints,
)
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.model.time import BEGINNING, FOREVER, Time

Compile = Callable[[Node], PhysicalPlan]
"""Compiles a plan as the plans of the running query were compiled."""


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
    """

    plan: PhysicalPlan
    nodes: tuple[Node, ...]
    ends: Mapping[str, Time]
    stables: tuple[Time, ...]
    tables: Collection[str]
    compile: Compile


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """A change of one output of a running query, or a query that is added to it.

    Attributes:
        at: The instant from which on the new answer counts; BEGINNING: always.
        both: The plan in which both answers are computed.
        both_nodes: What that means, per output.
        then: The plan without the old answer.
        then_nodes: What that means.
        kept: The stages of the new answer that go on with state of the running query.
        added: The stages that begin.
    """

    at: Time
    both: PhysicalPlan
    both_nodes: tuple[Node, ...]
    then: PhysicalPlan
    then_nodes: tuple[Node, ...]
    kept: tuple[str, ...]
    added: tuple[str, ...]


def kept_operators(running: RunningPlan, new: Node) -> frozenset[Node]:
    """The operators with state of the new plan whose state the running query has.

    An operator is kept if a stage of its own computes it in both plans.
    """
    there = {each for node in running.nodes for each in node.walk() if each.remembers}
    common = [each for each in new.walk() if each in there]
    if not common:
        return frozenset()
    old = set(state_fingerprints(running.plan).values())
    own = set(state_fingerprints(running.compile(new)).values())

    def is_kept(node: Node) -> bool:
        alone = running.compile(node)
        (index,) = alone.outputs
        fingerprint = state_fingerprints(alone)[alone.stages[index].name]
        return fingerprint in old and fingerprint in own

    return frozenset(each for each in common if is_kept(each))


def clip_instant(running: RunningPlan, output: int | None, new: Node) -> tuple[Time, str | None]:
    """The least T for a change by clip, and why there is none (then T is FOREVER)."""
    history = ReadHistory(running.ends, kept_operators(running, new), running.tables)
    why = history.unclippable(new)
    if why is not None:
        return FOREVER, why
    at = history.end(new)
    if output is not None:
        old = running.nodes[output]
        everything = frozenset(each for each in old.walk() if each.remembers)
        before = ReadHistory(running.ends, everything, running.tables)
        at = Time(max(at, before.end(old), running.stables[output]))
        if at == FOREVER:
            return FOREVER, "results of the old query hold for ever"
    return at, None


def planned_change(
    running: RunningPlan,
    output: int | None,
    new: Node,
    at: Time,
    *,
    seeded: bool = False,
    at_once: bool = False,
) -> PlannedChange:
    """The plans of a change to a new plan at an instant.

    Args:
        running: What the query computes at present.
        output: The number of the output that changes; None: the new query is added.
        new: The new plan.
        at: T. What the new plan says before does not count.
        seeded: The new plan begins with the state of all that was read, and not with nothing.
        at_once: Nothing before T can change any more: the old plan is not needed.
    """
    kept = kept_operators(running, new)
    history = ReadHistory(running.ends, kept, running.tables)
    begun = new if seeded else history.clipped(new)
    compiled = running.compile(begun)
    # The new plan may read any stage of those that run, before what these do behind it.
    changing = range(len(running.nodes))
    both = combined(running.plan, compiled, changing=changing)
    (way,) = both.new
    answers = [OutputChange(node, both.old[number]) for number, node in enumerate(running.nodes)]
    changed = OutputChange(new, None if output is None else both.old[output], way, at)
    live = new if at == BEGINNING else Clip(input=begun, start=at)
    both_nodes, then_nodes = list(running.nodes), list(running.nodes)
    if output is None:
        answers.append(changed)
        both_nodes.append(live)
        then_nodes.append(live)
    else:
        answers[output] = changed
        if at > BEGINNING:
            old = Clip(input=running.nodes[output], end=at)
            both_nodes[output] = Union(inputs=(old, Clip(input=new, start=at)))
        then_nodes[output] = live
    then = after_change(both, answers)
    is_short = output is None or at == BEGINNING or at_once
    during = then if is_short else in_change(both, answers)
    before = same_stages(running.plan, during)
    own = state_fingerprints(compiled)
    of_new = {name for name, each in state_fingerprints(during).items() if each in own.values()}
    return PlannedChange(
        at=at,
        both=during,
        both_nodes=tuple(then_nodes if is_short else both_nodes),
        then=then,
        then_nodes=tuple(then_nodes),
        kept=tuple(sorted(of_new & before.keys())),
        added=tuple(stage.name for stage in during.stages if stage.name not in before),
    )


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


def _other_columns(was: Mapping[str, object], now: Mapping[str, object]) -> Sequence[str]:
    found = [f"'{name}' is missing" for name in was if name not in now]
    found += [f"'{name}' is new" for name in now if name not in was]
    found += [
        f"'{name}' is {now[name]}, and was {was[name]}"
        for name in was
        if name in now and now[name] != was[name]
    ]
    return found


def _columns(node: Node) -> str:
    return ", ".join(f"{each.name} {each.type}" for each in node.schema)
