"""Rows below the stable point of their source, on their way into a query that can be revised.

The effect of a late row is cut at an instant, the *bound*. What it changes before the bound is
settled, or will be settled without it: that is left to replay. What it changes from the bound on is
sent on with the other rows of the batch. The cut is made behind the steps without memory that the
rows pass first, because these move lifetimes: a row at 10 behind a window of 5 still counts at 14.

The bound is the largest of the stable points that the edges of the source have reached, so that it
is legal on each of them, and the same for all: what one edge got and another one did not would be
missing in a join of the two, before the bound as well as behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.stage import PhysicalPlan, with_columns_of
from anabranch.model.batch import EventBatch
from anabranch.model.open_part import open_part
from anabranch.model.time import BEGINNING, Time


@final
@dataclass(frozen=True, slots=True, eq=False)
class LateRows:
    """Late rows of one source, as they came, and the instant before which they are replayed."""

    rows: EventBatch
    bound: Time

    @staticmethod
    def together(parts: Sequence[LateRows]) -> LateRows | None:
        """All of them; they have one bound. None if there are none."""
        if not parts:
            return None
        return LateRows(EventBatch.concat([part.rows for part in parts]), parts[0].bound)

    def through(self, plan: PhysicalPlan, target: int, edge: int) -> EventBatch:
        """What is left of them behind the steps of an edge."""
        way = plan.stages[target].edges[edge]
        batch = with_columns_of(self.rows, way.columns)
        for step in way.chain:
            batch = step.apply(batch)
        return open_part(batch, self.bound)


def open_bound(plan: PhysicalPlan, source: str, promised: Time) -> Time:
    """The bound for late rows of a source that has promised so much."""
    return Time(max(_promises(plan, source, promised), default=BEGINNING))


def _promises(plan: PhysicalPlan, source: str, promised: Time) -> Iterable[Time]:
    for stage in plan.stages:
        for edge in stage.edges:
            if edge.upstream == Address.source(source):
                yield edge.promise(promised)
