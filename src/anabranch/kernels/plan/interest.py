"""Which rows of its sources a plan still needs if nobody asks for its early results any more.

Feedback says: of the output only what ends at t or later is of interest (Chandramouli, Maier,
Goldstein, V-D). Every operator translates that for its inputs, from the output down to the sources.
Whatever holds at t or later stays as it is. So do events that end at t or later, with their starts;
where an operator puts events of one payload together that touch each other, it lets nothing be
left out, for each of them may be the beginning of one that reaches t. That is why aggregates and
the like pass nothing on: a row that they have not seen yet comes after everything they have
settled, and may begin a result that is still open at t. The exception are results per window, whose
rows all end with the window.
"""

from __future__ import annotations

import numpy as np

from anabranch.kernels.columns.grouped import Mask
from anabranch.kernels.contract.kernel import Stateful
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
