"""Which plan for the same queries a checkpoint was written by, and what that was chosen by."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import final

from anabranch.kernels.plan.identity import plan_fingerprint, stage_fingerprints
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.optimizer.statistics import PlanStatistics
from anabranch.runtime.store.migrations import MigrationFolder
from anabranch.runtime.store.query_record import QueryRecord, read_query_record
from anabranch.runtime.store.query_statistics import read_expected, read_priced_with


@final
@dataclass(frozen=True, slots=True)
class Expectations:
    """What the plan of a checkpoint was chosen by.

    Attributes:
        statistics: One after the other, the likeliest first; None: as sources are declared.
        accepted: The fingerprints of the plans that one of them leads to; None: any plan.
    """

    statistics: tuple[PlanStatistics | None, ...]
    accepted: Collection[str] | None = None


def expectations(checkpoint: str) -> Expectations | None:
    """What queries are planned by, so that they get the plan that their state belongs to.

    None where nothing has begun yet.

    A query that was changed while it ran was planned by what was measured by then. While both plans
    run, the query as it was before may be started, too: that was planned by something else.
    """
    stored = read_query_record(checkpoint)
    if stored is None:
        return None
    first = read_priced_with(checkpoint)
    if stored.in_force is None:
        return Expectations((first,))
    folder = MigrationFolder.of(checkpoint).folder
    changed = [read_expected(folder, name) for name in reversed(stored.in_force.expected)]
    known = [each for each in changed if each is not None]
    return Expectations((*known, first), stored.in_force.asked)


def resumes_better(
    checkpoint: str | None,
    plan: tuple[PhysicalPlan, Callable[[], PhysicalPlan]],
    other: Callable[[], tuple[PhysicalPlan, Callable[[], PhysicalPlan]]],
) -> bool:
    """Whether the state in a folder belongs to another plan for the same queries.

    A plan is given as it is compiled now, and as it was before state told its shard. The state of
    a stage is found by what the stage computes, so the plan that finds more of it resumes better.
    """
    stored = None if checkpoint is None else read_query_record(checkpoint)
    if stored is None:
        return False
    return _found(stored, *other()) > _found(stored, *plan)


def _found(stored: QueryRecord, now: PhysicalPlan, older: Callable[[], PhysicalPlan]) -> float:
    plan = now if stored.routed else older()
    if stored.plan == plan_fingerprint(plan):
        return float("inf")
    if stored.layout is None:
        return 0
    kept = {home.fingerprint for home in stored.layout.stages.values()}
    return len(kept & set(stage_fingerprints(plan).values()))
