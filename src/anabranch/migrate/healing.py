"""Outputs with the longest lifetimes keep them through a change: it is made below their coalesce.

A change cuts what holds at T: the old answer ends there, and the new one begins. The snapshots are
right, but the events are not the longest ones any more. So where both queries end in a coalesce,
both answers meet in one coalesce, which goes on from what has left. Its events depend on snapshots
alone: those of another plan for the same answer are the ones that there would have been without the
change, and a merge with copies that have not changed finds no contradiction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.node import Node
from anabranch.errors import PlanError
from anabranch.kernels.plan.compile import Emission
from anabranch.kernels.plan.stage import StageState
from anabranch.migrate.change import PlannedChange
from anabranch.migrate.handover import Handover, HealedStates, healed_state, is_readable
from anabranch.migrate.request import Request
from anabranch.model.time import Time
from anabranch.planning import AskedQuery, is_merged_copy
from anabranch.runtime.sinks.sinks import Sink
from anabranch.runtime.sources.files.log_records import LogProperties

if TYPE_CHECKING:
    from anabranch.runtime.query.work import Work


def healed_query(
    old: AskedQuery, new: AskedQuery, obstacle: str | None, *, where: str
) -> tuple[AskedQuery, bool]:
    """The query that an output becomes, and whether lifetimes are joined at T.

    Whoever reads one query by itself reads snapshots, and those are right in any case. A copy that
    a merge reads becomes a copy again; it must not be cut.

    Args:
        old: The query that runs.
        new: What it becomes.
        obstacle: Why nothing can be joined; None where that is possible.
        where: What messages call it.

    Raises:
        PlanError: A copy that a merge reads would be cut.
    """
    is_copy = is_merged_copy(old)
    found = in_form_of(old, new)
    why = obstacle
    if not isinstance(old.node, Coalesce) or not isinstance(found.node, Coalesce):
        why = "its events are not coalesced, but as its sources have them or in order"
    if why is None:
        return found, True
    if is_copy:
        raise PlanError(
            "a copy that a merge reads (--canonical, canonical()) cannot change in this way: its "
            "lifetimes would be cut at T, and the merge would find a contradiction to the other "
            f"copies, for {why}",
            where=where,
            hint="start the changed query as another copy (`anabranch jumpstart LOG NEW_LOG "
            "--script new.sql`) and let the merge continue with that (`anabranch cutover`)",
        )
    return new, False


def in_form_of(old: AskedQuery, new: AskedQuery) -> AskedQuery:
    """The query that takes the place of another one: that of a copy becomes a copy again."""
    return new.canonical() if is_merged_copy(old) else new


def unhealable(sink: Sink, emit: Emission, is_revised: bool) -> str | None:
    """Why the lifetimes of an output cannot be joined at T; None where they can."""
    if emit != "speculative":
        return "only final results leave it"
    if is_revised:
        return "a source is corrected (LATE REVISE)"
    if sink.delivery == "nothing" or not is_readable(sink):
        return "its output cannot be read back"
    return None


def below_coalesce(node: Node) -> Node:
    """What is computed below the coalesce that both answers share."""
    return node.input if isinstance(node, Coalesce) else node


def healed_handover(
    request: Request,
    change: PlannedChange,
    stables: Sequence[Time],
    others: Handover | None,
    batch: int,
) -> HealedStates:
    """What the coalesces of both answers begin with: all that has left before a batch."""
    states: dict[str, StageState] = {}
    moves = {} if others is None else dict(others.moves)
    for each in request.healed:
        assert each.open_results is not None
        stable = stables[each.number]
        each.open_results.read(stable, before=batch)
        stage = change.both.stages[change.both.outputs[each.number]]
        states[stage.name], moves[each.number] = healed_state(
            stage, each.open_results.rows, stable, moves.get(each.number)
        )
    return HealedStates(states, moves, others)


def with_longest(work: Work, request: Request) -> Work:
    """The same, where the logs of healed outputs note what is known of both answers, coalesced.

    The two never hold at one instant: where nothing holds twice in either, nothing does in both.
    """
    if not work.properties:
        return work
    known = list(work.properties)
    for each in request.healed:
        both = [Coalesce(input=node) for node in (each.old, each.new)]
        old, new = (LogProperties.of(node, "speculative") for node in both)
        known[each.number] = old.meet(new)
    return replace(work, properties=tuple(known))
