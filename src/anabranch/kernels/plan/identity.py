"""Which query a checkpoint belongs to, stage by stage, and in which form its state is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from anabranch.kernels.contract.kernel import Kernel, Stateful
from anabranch.kernels.plan.stage import PhysicalPlan, Stage
from anabranch.model.identity import Identity, KnownHashes, fingerprint, form_signature, identity_of


@final
@dataclass(frozen=True, slots=True)
class StateForm:
    """In which form a stateful operator keeps what it remembers.

    State is read by an operator of the same name, version and layout only.

    Attributes:
        operator: The name of the operator, which stays when its class is renamed.
        version: Of the format of its state.
        layout: A hash of what the planner has decided about it: columns, and how rows tell their
            shard.
    """

    operator: str
    version: int
    layout: str

    @staticmethod
    def of(kernel: Stateful) -> StateForm:
        """The form that a kernel of this version reads and writes."""
        declared = identity_of(kernel)
        return StateForm(declared.name, declared.version, fingerprint(form_signature(kernel)))


def stateful_kernels(stage: Stage) -> list[Stateful]:
    """The kernels of a stage that keep state, in order."""
    return [each for each in stage.kernels if isinstance(each, Stateful)]


def state_forms(stage: Stage) -> tuple[StateForm, ...]:
    """The forms in which the kernels of a stage keep their state, in order."""
    return tuple(StateForm.of(each) for each in stateful_kernels(stage))


@final
@dataclass(frozen=True, slots=True)
class _StageIdentity:
    """What a stage computes from what, whatever it is called.

    `reads` has for every edge the source, or the fingerprint of the stage that it comes from.
    """

    identity: ClassVar[Identity] = Identity("Stage", ("kernels", "reads", "sharded"))

    kernels: Sequence[Kernel]
    reads: Sequence[Any]
    sharded: bool


def stage_fingerprints(plan: PhysicalPlan) -> dict[str, str]:
    """Per stage a short hash of what it computes from which sources, whatever it is called."""
    found: dict[str, str] = {}
    hashes: KnownHashes = {}
    for stage in plan.stages:
        reads: list[Any] = [
            (
                str(edge.upstream) if edge.upstream.is_source else found[edge.upstream.name],
                edge.chain,
                edge.side,
            )
            for edge in stage.edges
        ]
        if stage.is_healing:
            # It goes on with its state when the old plan is gone, and nobody else does.
            reads = [stage.name]
        own = _StageIdentity(stage.kernels, reads, stage.sharded)
        found[stage.name] = fingerprint(own, hashes)
    return found


def plan_fingerprint(plan: PhysicalPlan) -> str:
    """A short hash of what the stages compute and which leave, to notice another query."""
    return fingerprint([list(stage_fingerprints(plan).values()), plan.outputs])
