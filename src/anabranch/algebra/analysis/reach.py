"""The reach of a change: which answers it can change, and which input decides them.

Over snapshots, from the plan alone. Spans are supersets: outside of them nothing depends on the
change. Windows of the time axis make them hold before the stable point of the output
(`axis_reach.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from anabranch.algebra.analysis.determinism import by_chance
from anabranch.algebra.analysis.node_reach import keeps_instants, reached, taken
from anabranch.algebra.analysis.spans import NOTHING, Span, hull
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source

Way: TypeAlias = Literal["direct", "swap", "refused"]


def affected(node: Node, source: str, span: Span) -> Span:
    """The output instants that a change of a source inside a span can change (a superset).

    A change inside a span leaves all snapshots of the source outside of it as they are. Without
    instants the span is NOTHING, for a source too that the plan does not read.
    """
    return _affected(node, source, span, {})


def _affected(node: Node, source: str, span: Span, found: dict[int, Span]) -> Span:
    if id(node) not in found:
        if isinstance(node, Source):
            found[id(node)] = span if node.name == source else NOTHING
        else:
            inputs = [_affected(each, source, span, found) for each in node.inputs]
            found[id(node)] = reached(node, hull(inputs))
    return found[id(node)]


def needed(node: Node, span: Span) -> dict[str, Span]:
    """Per source, the input instants that decide the output snapshots in a span (a superset).

    Every source of the plan is in it, with NOTHING where no instant is needed.
    """
    wanted: dict[int, list[Span]] = {id(node): [span]}
    found: dict[str, list[Span]] = {}
    for each in outputs_first(node):
        over = hull(wanted[id(each)])
        if isinstance(each, Source):
            found.setdefault(each.name, []).append(over)
        for below in each.inputs:
            wanted.setdefault(id(below), []).append(taken(each, over))
    return {name: hull(spans) for name, spans in found.items()}


def outputs_first(node: Node) -> list[Node]:
    """All nodes, each once and before those that it reads, however many others read it."""
    ordered: dict[int, Node] = {}

    def visit(each: Node) -> None:
        if id(each) not in ordered:
            for below in each.inputs:
                visit(below)
            ordered[id(each)] = each

    visit(node)
    return list(ordered.values())[::-1]


@final
@dataclass(frozen=True, slots=True)
class WayOfChange:
    """How a change of what is settled can be applied to a running query.

    Attributes:
        way: `direct`: what it changes from the stable point on enters the query behind the
            operators without state, as ordinary rows; what it changes before is replayed, and no
            state takes part. `swap`: state depends on it, and is computed anew by the replay.
            `refused`: a replay would not give the same answers.
        reason: Why, in a sentence that names the operator which decides.
    """

    way: Way
    reason: str


def way_of_change(node: Node, source: str) -> WayOfChange:
    """How a change of a source below its stable point can be applied to a running query.

    Directly if on every path from the source to the answer first come operators that keep no
    state, whatever they do to times, and then only those that work instant by instant. So the
    snapshots from the stable point on, of every input of an operator with state, follow from the
    part of the change from there on.
    """
    plan = outputs_first(node)
    if not any(isinstance(each, Source) and each.name == source for each in plan):
        return WayOfChange("direct", f"the query does not read {source}")
    for each in plan:
        name = _chance_of(each)
        if name is not None:
            return WayOfChange(
                "refused",
                f"'{each.label}' calls {name}, which is not deterministic: a replay would not "
                "give the same answers",
            )
    reads: set[int] = set()
    has_state: set[int] = set()
    for each in reversed(plan):
        below = {id(one) for one in each.inputs} & reads
        if not below and not (isinstance(each, Source) and each.name == source):
            continue
        reads.add(id(each))
        above_state = bool(below & has_state)
        if not isinstance(each, Source) and not keeps_instants(each):
            if each.remembers:
                return WayOfChange("swap", f"the state of '{each.label}' depends on earlier rows")
            if above_state:
                return WayOfChange(
                    "swap", f"'{each.label}' changes the times of results that depend on state"
                )
        if above_state or each.remembers:
            has_state.add(id(each))
    return WayOfChange("direct", f"all state that depends on {source} is of single instants")


def _chance_of(node: Node) -> str | None:
    """What a node calls that may answer differently each time, or None."""
    if isinstance(node, ApplyOperator):
        for call in node.calls:
            if "deterministic" not in call.operator.properties:
                return call.operator.name
    return by_chance(node)
