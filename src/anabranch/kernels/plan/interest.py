"""Which rows of its sources a plan still needs if nobody asks for its early results any more.

Feedback says: of the output only what ends at t or later is of interest (Chandramouli, Maier,
Goldstein, V-D). Every operator translates that for its inputs, from the output down to the sources.
Whatever holds at t or later stays as it is. So do events that end at t or later, with their starts;
where an operator puts events of one payload together that touch each other, it lets nothing be
left out, for each of them may be the beginning of one that reaches t. That is why aggregates and
the like pass nothing on: a row that they have not seen yet comes after everything they have
settled, and may begin a result that is still open at t. The exception are results per window, whose
rows all end with the window.

A merge knows more than t: it has settled all output before t, so it knows since when that holds
which reaches t. Told this too, operators of any kind need only the snapshots from there on.

The same two instants are translated for every operator on the way, which forgets by them what it
holds: `stage_needs` and `Stateful.purge`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from anabranch.algebra.analysis.node_reach import taken
from anabranch.algebra.analysis.reach import needed
from anabranch.algebra.analysis.spans import span
from anabranch.algebra.node import Node
from anabranch.kernels.columns.grouped import Mask
from anabranch.kernels.contract.kernel import ALL_NEEDED, Kernel, Need, Stateful
from anabranch.kernels.lifetimes.final import FinalKernel
from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER, Time


def interest(plan: PhysicalPlan, end: Time) -> dict[str, Time]:
    """Per source an instant: rows that end before it do not matter to output that ends at `end`.

    BEGINNING where everything matters.
    """
    wanted = {Address.stage(plan.stages[index].name): end for index in plan.outputs}
    for stage in reversed(plan.stages):
        instant = wanted.get(Address.stage(stage.name), FOREVER)
        kernels = list(stage.kernels)
        head = kernels.pop(0) if kernels and isinstance(kernels[0], Stateful) else None
        for kernel in reversed(kernels):
            instant = kernel.interest(instant)
        for edge in stage.edges:
            own = instant if head is None else head.interest(instant, edge.side)
            for step in reversed(edge.chain):
                own = step.interest(own)
            wanted[edge.upstream] = Time(min(wanted.get(edge.upstream, FOREVER), own))
    return {name: wanted.get(Address.source(name), BEGINNING) for name in plan.sources}


@final
@dataclass(frozen=True, slots=True)
class Interest:
    """What of the output somebody still wants to know.

    Attributes:
        end: Events that end there or later.
        since: None of these starts before this; BEGINNING: that is not known.
    """

    end: Time
    since: Time = BEGINNING


def source_instants(plan: PhysicalPlan, nodes: Sequence[Node], told: Interest) -> dict[str, Time]:
    """Per source, the instant before which rows may end that do not matter any more.

    There are two reasons to leave a row out, each sufficient, and the later instant counts.
    By its end: a row that ends early can only matter to output that ends early. That holds for
    operators that treat rows one by one or in pairs, not for those whose results last as long as
    nothing changes. By snapshots: if no output of interest starts before `since`, it follows from
    the snapshots from `since - 1` on, and so from those of the sources that decide them (`needed`).
    The instant before `since` is among them because an equal result there would be the same event.

    Example: `COUNT(*)` per item over a window of 10, output of interest ends at 100 or later and
    starts at 95 or later. A count may have been the same for a long time, so by its end no row can
    be left out. The snapshots of the count from 94 on need rows that hold at 94 - 9 = 85 or later:
    rows that end before 86 do not matter.
    """
    found = interest(plan, told.end)
    if told.since == BEGINNING or len(nodes) != 1:
        # Several outputs have events of their own, and nobody has said from when on all of them.
        return found
    for name, (first, last) in needed(nodes[0], span(told.since - 1, FOREVER)).items():
        if name in found and first < last:
            after = first if first == BEGINNING else min(first + 1, FOREVER)
            found[name] = Time(max(found[name], after))
    return found


def stage_needs(plan: PhysicalPlan, told: Interest) -> tuple[tuple[Need, ...], ...]:
    """Per stage, what is still needed of the output of each of its kernels with memory.

    As for sources, but on the way to them, so that an operator which needs all rows below it may
    itself forget what only it knows to be of no use: see `Stateful.purge`.
    """
    asked = {Address.stage(plan.stages[index].name): _told(plan, told) for index in plan.outputs}
    found: list[tuple[Need, ...]] = []
    for stage in reversed(plan.stages):
        need = asked.get(Address.stage(stage.name), ALL_NEEDED)
        kernels, own = list(stage.kernels), list[Need]()
        head = kernels.pop(0) if kernels and isinstance(kernels[0], Stateful) else None
        for kernel in reversed(kernels):
            if isinstance(kernel, Stateful):
                own.append(need)
            need = _below(kernel, need)
        if head is not None:
            own.append(need)
        found.append(tuple(reversed(own)))
        for edge in stage.edges:
            below = need if head is None else _below(head, need, edge.side)
            for step in reversed(edge.chain):
                below = _below(step, below)
            others = asked.get(edge.upstream, below)
            ends, firsts = (below.end, others.end), (below.first, others.first)
            asked[edge.upstream] = Need(Time(min(ends)), Time(min(firsts)))
    return tuple(reversed(found))


def _told(plan: PhysicalPlan, told: Interest) -> Need:
    """What is needed of the outputs; of several of them nobody knows since when that holds."""
    known = told.since > BEGINNING and len(plan.outputs) == 1
    return Need(told.end, Time(told.since - 1) if known else BEGINNING)


def _below(kernel: Kernel, need: Need, side: int = 0) -> Need:
    """What a kernel needs of a side for what is needed of it."""
    end = need.end if need.end == BEGINNING else kernel.interest(need.end, side)
    first, node = need.first, getattr(kernel, "node", None)
    if isinstance(node, Node) and first > BEGINNING:
        # Without instants it is BEGINNING, and so all is kept: that is always right.
        first, _ = taken(node, span(first, FOREVER))
    elif not isinstance(kernel, FinalKernel):
        first = BEGINNING
    return Need(Time(end), first)


def without_interest(
    batch: EventBatch, instant: Time, *, insert_only: bool, settled: Time = BEGINNING
) -> Mask:
    """Which rows can be left out because they end before an instant, now and for good.

    Args:
        batch: The rows.
        instant: What ends before it does not matter.
        insert_only: Nothing of this stream is ever adjusted.
        settled: No end before this is adjusted after the batch. In the batch, events that are
            adjusted at all are kept.
    """
    short = batch.new_end < instant
    if insert_only or not short.any():
        return short
    moves = batch.end != batch.start
    short &= ~moves & (batch.new_end < settled)
    return short & ~np.isin(batch.start, batch.start[moves])
