"""Which part of a plan keeps what where, and what stays when the plan changes."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

from anabranch.errors import PlanError
from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.combining_plans import remembers, same_stages
from anabranch.kernels.plan.identity import (
    StateForm,
    stage_fingerprints,
    state_forms,
    stateful_kernels,
)
from anabranch.kernels.plan.stage import PhysicalPlan


@final
@dataclass(frozen=True, slots=True)
class Home:
    """Where a stage or an output keeps what it has to remember.

    Attributes:
        folder: The name of its folder.
        fingerprint: What it computes, and from what.
        since: The first batch that it took part in.
        identity: For an output, what sinks know it by.
        forms: For a stage, in which form each of its operators keeps its state.
    """

    folder: str
    fingerprint: str
    since: int = 0
    identity: str = ""
    forms: tuple[StateForm, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class StateLayout:
    """The homes of all stages, by name, and of all outputs, in order."""

    stages: Mapping[str, Home] = field(default_factory=dict)
    outputs: tuple[Home, ...] = ()


def first_layout(plan: PhysicalPlan, query: str) -> StateLayout:
    """The layout of a query that begins."""
    prints = stage_fingerprints(plan)
    return StateLayout(
        {
            stage.name: Home(stage.name, prints[stage.name], forms=state_forms(stage))
            for stage in plan.stages
        },
        tuple(
            Home(
                "out" if not number else f"out/{number}",
                prints[plan.stages[index].name],
                identity=query if not number else f"{query}-{number}",
            )
            for number, index in enumerate(plan.outputs)
        ),
    )


def same_layout(old: StateLayout, plan: PhysicalPlan) -> StateLayout:
    """The layout of a query that resumes; its stages may have other names in this version."""
    homes = zip(plan.stages, old.stages.values(), strict=True)
    return StateLayout({stage.name: home for stage, home in homes}, old.outputs)


def refuse_other_forms(layout: StateLayout, plan: PhysicalPlan, *, where: str) -> None:
    """Refuse state that the operators of this version cannot read.

    Raises:
        PlanError: An operator kept its state in another version of its format, or laid it out
            otherwise.
    """
    for stage in plan.stages:
        forms = layout.stages[stage.name].forms
        # A home without forms is one of a format before there were any.
        for kernel, before in zip(stateful_kernels(stage), forms, strict=bool(forms)):
            now = StateForm.of(kernel)
            if before != now:
                _refuse_form(before, now, f"{where}, stage {stage.name}: {kernel.label}")


def _refuse_form(before: StateForm, now: StateForm, where: str) -> None:
    if before.version != now.version:
        was, is_ = f"version {before.version}", f"version {now.version}"
    else:
        was, is_ = f"layout {before.layout}", f"layout {now.layout}"
    raise PlanError(
        f"the state of {now.operator} cannot be read: the checkpoint has {was} of its format, and "
        f"this version of Anabranch {is_}",
        where=where,
        hint="resume the query with the version of Anabranch that wrote the checkpoint, or start "
        "it with a new checkpoint (and a new output folder)",
    )


def changed_layout(
    old: StateLayout, plan: PhysicalPlan, query: str, *, sources_before: Collection[str], batch: int
) -> StateLayout:
    """The layout of a query that goes on with another plan, from a batch on.

    What computes the same from the same keeps its home. What is new begins with nothing; that has
    a meaning only where it needs nothing of what came before.

    Args:
        old: The layout until now.
        plan: The new plan.
        query: The identity of the query.
        sources_before: The sources that have been read before.
        batch: The first batch of the new plan.

    Raises:
        PlanError: Something new would need what came before.
    """
    prints = stage_fingerprints(plan)
    kept = {home.fingerprint: home for home in old.stages.values()}
    stages: dict[str, Home] = {}
    for stage in plan.stages:
        name, fingerprint = stage.name, prints[stage.name]
        if fingerprint in kept:
            stages[name] = kept[fingerprint]
            continue
        for edge in stage.edges:
            upstream = edge.upstream
            if upstream.is_source:
                is_new = upstream.name not in sources_before
            else:
                is_new = stages[upstream.name].since == batch
            if not is_new:
                _refuse_history(plan, upstream)
        folder = f"{name}.{uuid.uuid4().hex[:8]}"
        stages[name] = Home(folder, fingerprint, batch, forms=state_forms(stage))
    waiting = list(old.outputs)
    outputs = []
    for index in plan.outputs:
        fingerprint = prints[plan.stages[index].name]
        home = next((each for each in waiting if each.fingerprint == fingerprint), None)
        if home is None:
            own = uuid.uuid4().hex[:8]
            home = Home(f"out/{own}", fingerprint, batch, f"{query}-{own}")
        else:
            waiting.remove(home)
        outputs.append(home)
    return StateLayout(stages, tuple(outputs))


def migrated_layout(
    old: StateLayout,
    before: PhysicalPlan,
    after: PhysicalPlan,
    *,
    query: str,
    batch: int,
    change: int,
    outputs: Sequence[int | None],
) -> StateLayout:
    """The layout of a running query that changes its plan with a batch.

    Stages whose state is made in the same way keep it. What is new begins with what is put there.

    Args:
        old: The layout until now.
        before: The plan until now.
        after: The plan from the batch on.
        query: The identity of the query.
        batch: The first batch of the plan.
        change: The number of the change. One that is made again after a crash has the same number,
            and so its sinks know the new outputs again.
        outputs: For each output of the plan the number that it had; None for a new one.
    """
    same = same_stages(before, after)
    prints = stage_fingerprints(after)
    stages: dict[str, Home] = {}
    taken: set[str] = set()
    for stage in after.stages:
        name = stage.name
        # Two stages may collect the same without memory; each has a folder of its own.
        if name in same and old.stages[same[name]].folder not in taken:
            stages[name] = replace(old.stages[same[name]], fingerprint=prints[name])
            taken.add(stages[name].folder)
        else:
            assert name not in same or not remembers(stage)
            folder = f"{name}.{uuid.uuid4().hex[:8]}"
            stages[name] = Home(folder, prints[name], batch, forms=state_forms(stage))
    homes = []
    for position, (index, number) in enumerate(zip(after.outputs, outputs, strict=True)):
        fingerprint = prints[after.stages[index].name]
        if number is not None:
            homes.append(replace(old.outputs[number], fingerprint=fingerprint))
        else:
            own = f"joined-{change}-{position}"
            homes.append(Home(f"out/{own}", fingerprint, batch, f"{query}-{own}"))
    return StateLayout(stages, tuple(homes))


def _refuse_history(plan: PhysicalPlan, upstream: Address) -> None:
    """Only plain rows that are still to come need nothing from before."""
    if upstream.is_source:
        source = plan.sources[upstream.name]
        if source.insert_only and not source.relation:
            return
        what = "corrects earlier rows" if not source.relation else "has been read already"
        what = f"a new query would read '{upstream.name}', which {what}"
    else:
        what = (
            f"a new query would read the results of stage {upstream.name}, which resume from "
            f"earlier"
        )
    raise PlanError(
        what,
        where="a changed query",
        hint="a new query can begin in the middle only over rows that are never corrected; start "
        "it with a checkpoint of its own",
    )
