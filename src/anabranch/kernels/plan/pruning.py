"""The columns of its sources that a plan reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.clip import Clip
from anabranch.algebra.filter import Filter
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.algebra.weighted_window import WeightedWindow
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.stage import Edge


def prune(edge: Edge, needed: Mapping[str, frozenset[str] | None]) -> Edge:
    """The same edge, reading only what is needed."""
    if not edge.upstream.is_source:
        return edge
    columns = needed[edge.upstream.name]
    return replace(edge, columns=None if columns is None else tuple(sorted(columns)))


def needed_columns(*nodes: Node) -> dict[str, frozenset[str] | None]:
    """Per source the columns that the plans read; None where they need them all."""
    needed: dict[str, frozenset[str] | None] = {}

    def visit(at: Node, wanted: frozenset[str] | None) -> None:
        match at:
            case Source():
                before = needed.get(at.name, frozenset())
                needed[at.name] = None if wanted is None or before is None else before | wanted
            case Filter():
                visit(at.input, None if wanted is None else wanted | at.predicate.columns)
            case Map():
                # A projection is evaluated as a whole, so all its columns are read.
                visit(at.input, _columns_of(part for _, part in at.columns))
            case Aggregation():
                parts = [part for _, part in at.group_by]
                parts += [call.argument for _, call in at.aggregates if call.argument is not None]
                visit(at.input, _columns_of(parts))
            case ApplyOperator():
                parts = [part for _, part in at.group_by]
                parts += [argument for call in at.calls for argument in call.arguments]
                visit(at.input, _columns_of(parts))
            case TimeWindow(columns=(_, _) as own):
                # These columns are the window's own.
                visit(at.input, None if wanted is None else wanted - set(own))
            case WeightedWindow():
                visit(at.input, None if wanted is None else wanted - {at.weight})
            case Union() | TimeWindow() | Granularity() | Shift() | Clip():
                for input in at.inputs:
                    visit(input, wanted)
            case _:
                for input in at.inputs:
                    visit(input, None)

    for node in nodes:
        visit(node, None)
    return needed


def _columns_of(parts: Iterable[Expression]) -> frozenset[str]:
    nothing: frozenset[str] = frozenset()
    return nothing.union(*(part.columns for part in parts))
