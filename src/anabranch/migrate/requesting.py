"""What is asked of a running query, and by which way it is done."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from anabranch.algebra.node import Node, clock_of
from anabranch.errors import PlanError
from anabranch.migrate.change import (
    RunningPlan,
    clip_instant,
    state_instant,
    taken_over,
    with_columns_of,
)
from anabranch.migrate.choice import Choice, chosen
from anabranch.migrate.executed_queries import ExecutedQueries
from anabranch.migrate.handover import unreadable
from anabranch.migrate.healing import below_coalesce, healed_query, unhealable
from anabranch.migrate.in_force import refuse_other_sources, refuse_unrevisable
from anabranch.migrate.operators import revised_plan, without_migrate
from anabranch.migrate.preparing import OpenResults
from anabranch.migrate.replays import Replays
from anabranch.migrate.request import OutputRequest, Request, WantedChange, earliest
from anabranch.planning import PlannedQueries
from anabranch.runtime.sinks.sinks import Sink
from anabranch.runtime.store.migrations import How, MigrationRecord

if TYPE_CHECKING:
    from anabranch.runtime.query.execution import Execution

_REVISED: Final = "a source is corrected (LATE REVISE)"


def requested(
    execution: Execution,
    queries: ExecutedQueries,
    wanted: WantedChange,
    *,
    how: How,
    at: Any,
    record: MigrationRecord | None,
) -> Request:
    """A change that can be made, as far as that can be told from the plans.

    Args:
        execution: What Spark executes.
        queries: What runs.
        wanted: What outputs become.
        how: The way that was asked for.
        at: T is not before this instant.
        record: The request of another process.

    Raises:
        PlanError: The queries cannot change to these.
    """
    assembly, running = execution.assembly, queries.running(queries.next_batch)
    numbers: Sequence[int] = sorted(wanted.queries)
    names = {
        number: wanted.names.get(number) or f"output {number} of {execution.checkpoint}"
        for number in numbers
    }
    where = ", ".join(dict.fromkeys(names.values()))
    asked, heals = [*queries.asked], dict.fromkeys(numbers, False)
    for number in numbers:
        obstacle = unhealable(_sink(execution, number), queries.emit, bool(running.revised))
        asked[number], heals[number] = healed_query(
            asked[number], wanted.queries[number], obstacle, where=names[number]
        )
    planned = queries.planned_with(asked, statistics=wanted.statistics)
    refuse_other_sources(assembly, planned, where)
    refuse_unrevisable(assembly, planned, where)
    if wanted.statistics is not None:
        numbers = _planned_anew(numbers, running, planned)
    outputs: list[OutputRequest] = []
    before: dict[Node, Node] = {}
    for number in numbers:
        old = running.nodes[number]
        revised = revised_plan(planned.workers[number], running.nodes, where=names[number])
        before.update(revised.before)
        body = below_coalesce(revised.node) if heals[number] else revised.node
        open_results = OpenResults(_sink(execution, number)) if heals[number] else None
        new = with_columns_of(body, old, where=names[number])
        outputs.append(OutputRequest(number=number, old=old, new=new, open_results=open_results))
    _refuse_other_clocks(outputs, names)
    not_before = earliest(at, clock_of(outputs[0].old), where=where)
    first = record or MigrationRecord(
        number=0, requested_at=time.time(), what=", ".join(wanted.names.values())
    )
    return Request(
        record=replace(
            first,
            how=how,
            output=numbers[0],
            others=tuple(numbers[1:]),
            not_before=None if at is None else int(not_before),
            reoptimize=first.reoptimize or wanted.statistics is not None,
        ),
        outputs=tuple(outputs),
        asked=asked,
        planned=planned,
        not_before=not_before,
        before=before,
        where=where,
    )


def choose_way(
    execution: Execution, replays: Replays, running: RunningPlan, request: Request
) -> Choice:
    """T, the way, and why; as far as it can be told now.

    Raises:
        PlanError: There is no way, or not the one that was asked for.
    """
    how, answers = request.record.how, request.answers
    clip_at, no_clip = clip_instant(running, answers)
    no_replay = None
    if request.prepared is None and (how != "clip" or no_clip is not None):
        no_replay = replays.unreplayable(answers, request.planned)
    if running.revised:
        no_replay = f"{_REVISED}, and its late rows are not read again"
    effort = None
    if how == "auto" and no_clip is None and no_replay is None:
        effort = replays.effort(answers, request.planned, clip_at)
    sinks = [_sink(execution, each.number) for each in request.outputs]
    operators, no_state = taken_over(running, request.before)
    no_state = no_state or next(filter(None, map(unreadable, sinks)), None)
    no_state = no_state or without_migrate(request.before)
    if running.revised:
        no_state = no_state or _REVISED
    state_at, why = state_instant(running, answers, operators)
    return chosen(
        how,
        clip_at=clip_at,
        no_clip=no_clip,
        no_replay=no_replay,
        stable=max(running.stables[each.number] for each in request.outputs),
        not_before=request.not_before,
        clock=clock_of(request.outputs[0].old),
        where=request.where,
        effort=effort,
        state_at=state_at,
        no_state=no_state or why,
    )


def _sink(execution: Execution, output: int) -> Sink:
    return execution.assembly.outputs[output].sink


def _planned_anew(
    numbers: Sequence[int], running: RunningPlan, planned: PlannedQueries
) -> Sequence[int]:
    """Of outputs that stay the same queries those whose plan differs; all, if none does."""
    return [each for each in numbers if planned.workers[each] != running.nodes[each]] or numbers


def _refuse_other_clocks(outputs: Sequence[OutputRequest], names: Mapping[int, str]) -> None:
    """Refuse a change of outputs for which one T is not one instant.

    Raises:
        PlanError: They count time in different ways.
    """
    first = outputs[0]
    for each in outputs:
        if clock_of(each.old) != clock_of(first.old):
            raise PlanError(
                f"'{names[first.number]}' and '{names[each.number]}' count time in different ways, "
                "and they would change at one instant",
                where=names[each.number],
                hint="change one after the other",
            )
