"""Which kernel runs a node, and what rows it needs together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from anabranch.algebra.aggregate import Aggregate
from anabranch.algebra.coalesce import Coalesce
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.expression import Expression
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.time_window import TimeWindow
from anabranch.errors import PlanError
from anabranch.kernels.aggregate import AggregateKernel
from anabranch.kernels.filter import FilterKernel
from anabranch.kernels.join import JoinKernel
from anabranch.kernels.kernel import Stateful, Stateless
from anabranch.kernels.map import MapKernel
from anabranch.kernels.multiplicity import MultiplicityKernel
from anabranch.kernels.time_window import TimeWindowKernel


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A kernel with memory and the rows that must meet in one shard.

    Attributes:
        kernel: The kernel.
        kind: What stages are called after.
        together: Columns of the output; rows that agree in them are in one shard. None: nothing
            is known. Empty: everything is in one shard.
        keys: What the rows of the input are grouped by; None: by the columns in `together`.
    """

    kernel: Stateful
    kind: str
    together: frozenset[str] | None
    keys: Mapping[str, Expression] | None = None


def kernel_of(node: Node) -> Stateless | Placement:
    """The kernel of a node that is neither a source nor a union.

    Raises:
        PlanError: There is none.
    """
    match node:
        case Filter():
            return FilterKernel(node)
        case Map():
            return MapKernel(node)
        case TimeWindow():
            return TimeWindowKernel(node)
        case Aggregate():
            return Placement(
                kernel=AggregateKernel.of(node),
                kind="aggregate",
                together=frozenset(name for name, _ in node.group_by),
                keys=dict(node.group_by),
            )
        case Join():
            return _join(node)
        case Coalesce() | Distinct():
            return _by_payload(MultiplicityKernel(node), type(node).__name__.lower())
        case SetOperation():
            return _by_payload(MultiplicityKernel(node), node.kind.replace(" ", "-"))
    raise PlanError(
        f"there is no kernel for {type(node).__name__}",
        hint="use the operators of anabranch.algebra",
    )


def _join(node: Join) -> Placement:
    kernel = JoinKernel.of(node)
    together: frozenset[str] | None = None
    if not kernel.broadcast:
        keys = [key.is_column for key in kernel.keys.left]
        # NULLs pad what has no partner on the left, so the left columns do not tell the shard.
        known = node.kind not in ("right", "full") and None not in keys
        together = frozenset(key for key in keys if key is not None) if known else None
        if not kernel.keys.left:
            together = frozenset()
    return Placement(kernel=kernel, kind="join", together=together)


def _by_payload(kernel: Stateful, kind: str) -> Placement:
    return Placement(kernel=kernel, kind=kind, together=frozenset(kernel.schema.names))
