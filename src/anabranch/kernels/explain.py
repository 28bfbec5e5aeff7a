"""A physical plan as text: stages, what they read, and where rows change hands."""

from __future__ import annotations

from anabranch.kernels.aggregate import AggregateKernel
from anabranch.kernels.coalesce import CoalesceKernel
from anabranch.kernels.filter import FilterKernel
from anabranch.kernels.final import FinalKernel
from anabranch.kernels.kernel import Kernel
from anabranch.kernels.map import MapKernel
from anabranch.kernels.stage import Edge, PhysicalPlan, Stage
from anabranch.kernels.time_window import TimeWindowKernel


def explain_stages(plan: PhysicalPlan) -> str:
    """Every stage with its edges and kernels, in the order in which they run."""
    return "\n".join(line for stage in plan.stages for line in _stage(stage))


def _stage(stage: Stage) -> list[str]:
    spread = "one shard" if not stage.sharded else f"by {_key(stage)}"
    lines = [f"Stage {stage.name} ({spread})"]
    lines += [f"  reads {_edge(edge)}" for edge in stage.edges]
    lines += [f"  {describe(kernel)}" for kernel in stage.kernels]
    return lines


def _key(stage: Stage) -> str:
    match stage.kernels[0] if stage.kernels else None:
        case AggregateKernel(node=node):
            return ", ".join(expression.sql for _, expression in node.group_by)
        case CoalesceKernel() | FinalKernel():
            return "payload"
    return "sender"


def _edge(edge: Edge) -> str:
    columns = "" if edge.columns is None else f" ({', '.join(edge.columns)})"
    steps = "".join(f" -> {describe(step)}" for step in edge.chain)
    return f"{edge.upstream}{columns}{steps}"


def describe(kernel: Kernel) -> str:
    """One line for a kernel: its node's label, and how it goes about it where there is a choice."""
    match kernel:
        case AggregateKernel(node=node, keeps_events=keeps):
            extremes = bool(kernel.measures.extremes)
            how = " [keeps events]" if keeps else " [insert-only]" if extremes else ""
            return f"{node.label}{how}"
        case FilterKernel() | MapKernel() | TimeWindowKernel() | CoalesceKernel():
            return kernel.node.label
        case FinalKernel():
            return "Final (holds what may still change)"
    return type(kernel).__name__
