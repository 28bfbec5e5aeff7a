"""Where it matters only which payloads are there, not how often."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.time_window import TimeWindow


def ignores_duplicates(aggregate: Aggregation) -> bool:
    """Whether copies of a payload change nothing: MIN, MAX, and aggregates of distinct values."""
    return all(call.ignores_duplicates for _, call in aggregate.aggregates)


def with_presence_windows(plan: Node) -> Node:
    """The same stream; windows over lifetimes stretch them once where duplicates do not count.

    op(TimeWindow(x, w)) -> op(TimeWindow(x, w, presence)), op blind to duplicates: Distinct, MIN
    and MAX, aggregates of DISTINCT values, the right side of semi and anti joins and of a strict
    difference. Between the window and op there may be what passes presence on.

    A lifetime [s, e) is then held as [s, e + w - 1) instead of min(w, e - s) layers, which is what
    makes windows over derived streams possible where a chronon is a microsecond (Kraemer 2007,
    12.3.2). It is part of compiling, so it holds for plans that no rule was applied to as well.

    Below SUM, COUNT, joins and at the end of a plan this would be wrong: they see how often a
    payload is there.
    """
    return _rewritten(plan, False, {})


def _rewritten(node: Node, presence: bool, rewritten: dict[tuple[int, bool], Node]) -> Node:
    key = (id(node), presence)
    if key not in rewritten:
        inputs = [
            _rewritten(each, blind, rewritten)
            for each, blind in zip(node.inputs, _blind_inputs(node, presence), strict=True)
        ]
        changed = any(new is not old for new, old in zip(inputs, node.inputs))
        found = node.with_inputs(*inputs) if changed else node
        if presence and isinstance(found, TimeWindow) and _has_layers(found):
            found = replace(found, presence=True)
        rewritten[key] = found
    return rewritten[key]


def _has_layers(window: TimeWindow) -> bool:
    """Whether lifetimes may be held several times at once."""
    return window.columns is None and not window.input.properties.only_points


def _blind_inputs(node: Node, presence: bool) -> tuple[bool, ...]:
    """For each input, whether only the presence of its payloads matters."""
    match node:
        case Distinct():
            return (True,)
        case Aggregation():
            return (ignores_duplicates(node),)
        case Join(kind="semi" | "anti") | SetOperation(kind="strict difference"):
            return (presence, True)
        case Join() | SetOperation(kind="max-union"):
            return (presence, presence)
        case SetOperation(kind="difference"):
            # max(1 - n, 0) is 0 from one copy on.
            return (False, node.left.properties.no_duplicates)
        case SetOperation(kind="intersection"):
            # min(1, n) is 1 from one copy on; one side has to say that there is only one.
            left, right = node.left.properties, node.right.properties
            return (
                presence or right.no_duplicates,
                presence or (left.no_duplicates and not right.no_duplicates),
            )
    passes = node.traits.passes_presence and presence
    return (passes,) * len(node.inputs)
