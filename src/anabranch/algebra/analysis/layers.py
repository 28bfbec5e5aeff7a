"""Windows over lifetimes that would be cut into more layers than can be."""

from __future__ import annotations

from typing import Final

from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import Hopping
from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.errors import PlanError
from anabranch.model.time import FOREVER

MOST_LAYERS_OF_A_ROW: Final = 1_000_000
"""Above this number of layers for one row a plan is refused before it runs."""

WAYS_OUT: Final = (
    "every instant of a lifetime counts as an occurrence; give the window a SLIDE, or write "
    "GRANULARITY after it, and COUNT, SUM and AVG over it are weighted by time; use MIN, MAX "
    "or DISTINCT, which need no copies; or put the window on points: on the source, or on "
    "Istream(...) of the query"
)
"""What to do about a window over long lifetimes."""


def refuse_endless_layers(plan: Node, most: int = MOST_LAYERS_OF_A_ROW) -> None:
    """A window over a stream whose rows surely hold for long, where copies of them count.

    Called on the plan that runs: what ignores copies, and what is counted on a grid, has other
    windows there. What is not known of a source is found out when its rows come.

    Raises:
        PlanError: There is one.
    """
    for node in _different(plan):
        if not isinstance(node, TimeWindow) or node.presence or node.columns is not None:
            continue
        if node.size <= most:
            continue
        length = None if node.input.properties.only_points else least_length(node.input)
        if length is not None and min(length, node.size) > most:
            held = clock_of(node.input).format_duration(min(length, int(FOREVER)))
            raise PlanError(
                f"a window would hold every row of a query {min(length, node.size):,} times",
                where=f"{node.label} over {node.input.label}, whose rows hold for {held}",
                hint=WAYS_OUT,
            )


def _different(plan: Node) -> list[Node]:
    """The nodes of a plan, each once: parts that several others read are not walked again."""
    found: dict[int, Node] = {}
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if id(node) not in found:
            found[id(node)] = node
            waiting += node.inputs
    return list(found.values())


def least_length(node: Node) -> int | None:
    """How long what becomes of one row of a source holds at least; None where it is not known.

    Of an aggregate that is the time during which a row counts: its results may change in between,
    but all of them together hold that long.
    """
    if node.properties.only_points:
        return 1
    match node:
        case Source(always=True):
            return int(FOREVER)
        case TimeWindow(size=size, slide=slide):
            below = least_length(node.input)
            shown = int(size) if int(size) == FOREVER else size // slide * slide
            return None if below is None else min(shown + below - 1, int(FOREVER))
        case Granularity(input=below, granule=granule):
            length = least_length(below)
            return None if length is None else max(length, granule)
        case Union():
            lengths = [least_length(each) for each in node.inputs]
            return max((each for each in lengths if each is not None), default=None)
        case Join(kind="inner"):
            sides = [least_length(each) for each in node.inputs]
            return None if None in sides else min(side for side in sides if side is not None)
        case Join(kind="left") | SetOperation(kind="max-union"):
            return least_length(node.left)
        case ApplyOperator(window=Hopping(size=size), timestamps="align"):
            return size
    return least_length(*node.inputs) if node.traits.keeps_length else None
