"""The kernel of each node, and the rows that it needs in one shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import pyarrow as pa

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.clip import Clip
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.explode import Explode
from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.split import Split
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.merge import Merge
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.algebra.ranking import Ranking
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.shift import Shift
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.top_k import TopK
from anabranch.algebra.weighted_window import WeightedWindow
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import rebind
from anabranch.kernels.aggregate.aggregate import AggregateKernel
from anabranch.kernels.contract.kernel import Stateful, Stateless
from anabranch.kernels.contract.routing import Route
from anabranch.kernels.join.join import JoinKernel
from anabranch.kernels.lifetimes.alter_lifetime import AlterLifetimeKernel
from anabranch.kernels.lifetimes.cleanse import CleanseKernel
from anabranch.kernels.lifetimes.final import FinalKernel
from anabranch.kernels.lifetimes.from_signed import FromSignedKernel
from anabranch.kernels.lifetimes.split import KeepKernel, SplitKernel
from anabranch.kernels.lifetimes.to_stream import ToStreamKernel
from anabranch.kernels.merge.merge import MergeKernel
from anabranch.kernels.modules.apply_operator import ApplyOperatorKernel
from anabranch.kernels.multiplicity.multiplicity import MultiplicityKernel
from anabranch.kernels.ranking.ranking import RankingKernel
from anabranch.kernels.row_windows.count_window import CountWindowKernel
from anabranch.kernels.row_windows.session_window import SessionWindowKernel
from anabranch.kernels.stateless.explode import ExplodeKernel
from anabranch.kernels.stateless.filter import FilterKernel
from anabranch.kernels.stateless.map import MapKernel
from anabranch.kernels.stateless.retime import RetimeKernel
from anabranch.kernels.stateless.time_window import TimeWindowKernel
from anabranch.kernels.stateless.weighted_window import WeightedWindowKernel
from anabranch.kernels.top_k.top_k import TopKKernel


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
        route: How rows of the output tell the shard, if the stage begins with this kernel.
        names: What columns of the input are called in the output; None: all as they were.
        alone: It remembers nothing but its keys, so it begins a stage where others have other ids.
    """

    kernel: Stateful
    kind: str
    colocated_by: frozenset[str] | None
    keys: Mapping[str, Expression] | None = None
    route: Route | None = None
    names: Mapping[str, str] | None = None
    alone: bool = False


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
        case Explode():
            return ExplodeKernel(node)
        case TimeWindow():
            return TimeWindowKernel(node)
        case WeightedWindow():
            return WeightedWindowKernel(node)
        case Aggregation():
            return Placement(
                kernel=AggregateKernel.of(node),
                kind="aggregate",
                colocated_by=frozenset(name for name, _ in node.group_by),
                keys=dict(node.group_by),
                route=_columns(node.schema, [name for name, _ in node.group_by]),
                names={part.is_column: name for name, part in node.group_by if part.is_column},
            )
        case ApplyOperator():
            return Placement(
                kernel=ApplyOperatorKernel.of(node),
                kind="modules",
                colocated_by=frozenset(name for name, _ in node.group_by),
                keys=dict(node.group_by),
                route=_columns(node.schema, [name for name, _ in node.group_by]),
                names={part.is_column: name for name, part in node.group_by if part.is_column},
                alone=True,
            )
        case Join():
            return _join(node)
        case CountWindow():
            return _by_parts(CountWindowKernel.of(node), "count-window", node.partition_by)
        case SessionWindow():
            return _by_parts(SessionWindowKernel.of(node), "session-window", node.partition_by)
        case TopK():
            parts = [key.columns for _, key in node.partition_by]
            return Placement(
                kernel=TopKKernel(node),
                kind="top-k",
                colocated_by=frozenset().union(*parts),
                keys=dict(node.partition_by),
                route=Route(tuple(key for _, key in node.partition_by)),
            )
        case Ranking():
            parts = [key.columns for _, key in node.partition_by]
            return Placement(
                kernel=RankingKernel(node),
                kind="ranking",
                colocated_by=frozenset().union(*parts),
                keys=dict(node.partition_by),
                route=Route(tuple(rebind(key, node.schema) for _, key in node.partition_by)),
                names={name: name for name in node.input.schema.names},
            )
        case Coalesce() | Distinct():
            return _by_payload(MultiplicityKernel(node), node.identity.name.lower())
        case SetOperation():
            return _by_payload(MultiplicityKernel(node), node.kind.replace(" ", "-"))
        case Granularity() | Shift() | Clip():
            return RetimeKernel(node)
        case Split() | ToStream(kind="snapshots"):
            points = node.input.properties.only_points
            return KeepKernel(node) if points else _by_payload(SplitKernel(node), "split")
        case ToStream() | ToSigned():
            names = node.input.schema.names
            return Placement(
                kernel=ToStreamKernel(node),
                kind=node.label.split()[0].lower(),
                colocated_by=frozenset(names),
                route=_columns(node.schema, names),
            )
        case FromSigned():
            return _by_payload(FromSignedKernel(node), "fromsigned")
        case Merge():
            kernel = MergeKernel(node)
            if kernel.spread == "start":
                return Placement(kernel=kernel, kind="merge", colocated_by=None)
            return _by_payload(kernel, "merge")
        case Cleanse():
            return _by_payload(CleanseKernel(node), "cleanse")
        case AlterLifetime():
            return _by_payload(AlterLifetimeKernel(node), "lifetime")
    raise PlanError(
        f"there is no kernel for {node.label}",
        hint="use the operators of anabranch.algebra",
    )


def _join(node: Join) -> Placement:
    kernel = JoinKernel.of(node)
    colocated_by: frozenset[str] | None = None
    if not kernel.broadcast:
        keys = [key.is_column for key in kernel.keys.left]
        # NULLs pad what has no partner on the left, so the left columns do not tell the shard.
        is_known = node.kind not in ("right", "full") and None not in keys
        colocated_by = frozenset(key for key in keys if key is not None) if is_known else None
        if not kernel.keys.left:
            colocated_by = None if kernel.spreads else frozenset()
    return Placement(kernel=kernel, kind="join", colocated_by=colocated_by, route=kernel.sent_by)


def _by_parts(kernel: Stateful, kind: str, parts: tuple[tuple[str, Expression], ...]) -> Placement:
    """Groups are kept together; their rows show which one they are in only by whole columns."""
    columns = [key.is_column for _, key in parts]
    named = frozenset(name for name in columns if name is not None)
    colocated_by = None if None in columns else named
    route = Route(tuple(key for _, key in parts))
    return Placement(
        kernel=kernel, kind=kind, colocated_by=colocated_by, keys=dict(parts), route=route
    )


def _by_payload(kernel: Stateful, kind: str) -> Placement:
    names = kernel.schema.names
    route = _columns(kernel.schema, names)
    return Placement(kernel=kernel, kind=kind, colocated_by=frozenset(names), route=route)


def coalesce_placement(node: Node, kind: str) -> Placement:
    """A coalesce over a plan, in a stage that is called so."""
    return _by_payload(MultiplicityKernel(Coalesce(input=node)), kind)


def final_placement(payload: pa.Schema) -> Placement:
    """Final emission, which needs nothing together: what comes to it may stay where it is."""
    route = _columns(payload, payload.names)
    return Placement(kernel=FinalKernel(payload), kind="final", colocated_by=None, route=route)


def _columns(schema: pa.Schema, names: Sequence[str]) -> Route:
    return Route(tuple(Expression.column(name, schema) for name in names))
