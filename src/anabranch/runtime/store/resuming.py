"""Which of two plans for the same queries a checkpoint was written by."""

from __future__ import annotations

from collections.abc import Callable

from anabranch.kernels.plan.identity import plan_fingerprint, stage_fingerprints
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.runtime.store.query_record import QueryRecord, read_query_record


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
