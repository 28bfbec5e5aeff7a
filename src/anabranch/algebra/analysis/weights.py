"""Count what a window holds on the grid where alone it changes, instead of layer by layer."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pyarrow as pa

from anabranch.aggregates.call import AggregateCall
from anabranch.aggregates.lanes import ValueLane
from anabranch.aggregates.weighing import Weighing
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.analysis.presence import ignores_duplicates
from anabranch.algebra.filter import Filter
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.weighted_window import WeightedWindow
from anabranch.errors import QueryError
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import rebind
from anabranch.expressions.scalar_function import ScalarFunction


def with_weighted_windows(plan: Node) -> Node:
    """The same stream; windows with a slide or a granularity below aggregates weigh lifetimes.

    Aggregate(f, TimeWindow(x, w, slide)) -> Aggregate(f weighed, WeightedWindow(x, w, slide)) for
    lifetimes, where f is made of COUNT, SUM, AVG, MIN, MAX and aggregates of distinct values, which
    their declarations say; the window may be below a granularity, filters and projections. COUNT(*)
    becomes SUM(weight), SUM(v) becomes SUM(v * weight), AVG their quotient.

    The content of such a window changes at grid instants only, so that it can be counted there:
    on microseconds this is the difference between a few rows and a million layers per second.
    Without a grid the count changes with every chronon, and the answer itself would be endless.
    """
    return _rewritten(plan, {})


def _rewritten(node: Node, rewritten: dict[int, Node]) -> Node:
    if id(node) not in rewritten:
        inputs = [_rewritten(each, rewritten) for each in node.inputs]
        changed = any(new is not old for new, old in zip(inputs, node.inputs))
        found = node.with_inputs(*inputs) if changed else node
        weighed = _weighed(found) if isinstance(found, Aggregation) else None
        rewritten[id(node)] = found if weighed is None else weighed
    return rewritten[id(node)]


def _weighed(node: Aggregation) -> Node | None:
    if ignores_duplicates(node) or not all(_is_additive(call) for _, call in node.aggregates):
        return None
    floats = any(
        call.argument is not None
        and pa.types.is_floating(call.argument.type)
        and ValueLane.TOTAL in call.needs
        for _, call in node.aggregates
    )
    taken = _names_to_window(node)
    if taken is None:
        return None
    weight = _free("weight", taken)
    below = _below(node.input, weight, floats)
    if below is None:
        return None
    try:
        return _aggregate(node, below, weight, taken)
    except QueryError:
        # Products of such values and weights do not fit into any type.
        return None


def _names_to_window(node: Aggregation) -> set[str] | None:
    """The names of all columns from an aggregate down to a time window; None if there is none."""
    names = {name.lower() for name in node.schema.names}
    below: Node = node.input
    while isinstance(below, Filter | Map | Granularity):
        names |= {name.lower() for name in below.schema.names}
        below = below.input
    if not isinstance(below, TimeWindow):
        return None
    return names | {name.lower() for name in below.schema.names}


def _free(stem: str, taken: set[str]) -> str:
    """A name that no column has, and from now on one has."""
    found = next(name for n in count() if (name := f"{stem}{n or ''}") not in taken)
    taken.add(found)
    return found


def _is_additive(call: AggregateCall) -> bool:
    return call.ignores_duplicates or call.definition.weighed is not None


def _below(node: Node, weight: str, powers: bool, granule: int = 1) -> Node | None:
    """The same input with a column of weights, if it is a window over lifetimes on a grid."""
    match node:
        case Granularity(input=below, granule=own) if granule == 1:
            return _below(below, weight, powers, own)
        case Filter(input=below, predicate=condition):
            found = _below(below, weight, powers, granule)
            if found is not None:
                return Filter(input=found, predicate=rebind(condition, found.schema))
        case Map(input=below, columns=columns):
            found = _below(below, weight, powers, granule)
            if found is not None:
                kept = [(name, rebind(part, found.schema)) for name, part in columns]
                last = (weight, Expression.column(weight, found.schema))
                return Map(input=found, columns=(*kept, last))
        case TimeWindow(input=below, size=size, slide=slide, columns=None, presence=False):
            on_grid = slide > 1 or granule > 1
            if on_grid and not below.properties.only_points:
                return WeightedWindow(
                    input=below,
                    size=size,
                    slide=slide,
                    granule=type(size)(granule),
                    weight=weight,
                    powers=powers,
                )
    return None


def _aggregate(node: Aggregation, below: Node, weight: str, taken: set[str]) -> Node:
    """Sums of weights and of products with them; above them what was asked for."""
    sums: dict[str, AggregateCall] = {}

    def summed(text: str, functions: tuple[ScalarFunction, ...] = ()) -> str:
        """The name of a sum over the rows."""
        argument = Expression.parse(text, below.schema, functions=functions)
        call = AggregateCall(function="sum", argument=argument)
        equal = [name for name, each in sums.items() if each == call]
        name = equal[0] if equal else _free("sum", taken)
        sums[name] = call
        return name

    results: list[tuple[str, str]] = []
    for name, call in node.aggregates:
        weighed = call.definition.weighed
        if call.ignores_duplicates:
            assert call.argument is not None
            own = _free(call.function, taken)
            sums[own] = replace(call, argument=rebind(call.argument, below.schema))
            results.append((name, own))
        else:
            assert weighed is not None
            results.append((name, weighed(Weighing(call.argument, weight, summed))))
    group = tuple((name, rebind(part, below.schema)) for name, part in node.group_by)
    inner = Aggregation(input=below, group_by=group, aggregates=tuple(sums.items()))
    columns = [(name, Expression.column(name, inner.schema)) for name, _ in group]
    columns += [(name, Expression.parse(text, inner.schema)) for name, text in results]
    found = Map(input=inner, columns=tuple(columns))
    assert found.schema.types == node.schema.types, f"{found.schema} is not {node.schema}"
    return found
