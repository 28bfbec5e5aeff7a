"""A physical plan as text: stages, what they read, and where rows change hands."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.kernels.contract.kernel import Stateful
from anabranch.kernels.merge.merge import MergeKernel
from anabranch.kernels.plan.stage import Edge, PhysicalPlan, Stage


def explain_stages(plan: PhysicalPlan, outputs: Sequence[str] = ()) -> str:
    """Every stage with its edges and kernels, in the order in which they run.

    `outputs` are the names of the outputs, if they are to be said.
    """
    lines: list[str] = []
    for index, stage in enumerate(plan.stages):
        lines += _stage(stage)
        lines += [f"  gives {name}" for name, at in zip(outputs, plan.outputs) if at == index]
    return "\n".join(lines)


def _stage(stage: Stage) -> list[str]:
    spread = "one shard" if not stage.sharded else f"by {_key(stage)}"
    lines = [f"Stage {stage.name} ({spread})"]
    for number, edge in enumerate(stage.edges):
        side = "" if stage.sides == 1 else f"{_side(stage, edge.side)} "
        everywhere = ", to all shards" if stage.is_broadcast(number) else ""
        lines.append(f"  reads {side}{_edge(edge)}{everywhere}")
    lines += [f"  {kernel.label}" for kernel in stage.kernels]
    return lines


def _side(stage: Stage, side: int) -> str:
    head = stage.kernels[0]
    if isinstance(head, MergeKernel):
        return f"'{head.node.names[side]}'"
    return ("left", "right")[side]


def _key(stage: Stage) -> str:
    head = stage.kernels[0] if stage.kernels else None
    return head.spread if isinstance(head, Stateful) else "sender"


def _edge(edge: Edge) -> str:
    columns = "" if edge.columns is None else f" ({', '.join(edge.columns)})"
    steps = "".join(f" -> {step.label}" for step in edge.chain)
    return f"{edge.upstream}{columns}{steps}"
