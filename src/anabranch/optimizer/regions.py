"""The parts of a plan that work snapshot by snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from anabranch.algebra.granularity import Granularity
from anabranch.algebra.node import Node
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.optimizer.interning import Interner


@final
@dataclass(frozen=True, slots=True)
class Region:
    """A largest part in which all conventional rules apply.

    Attributes:
        nodes: Its operators, inputs first.
        inputs: The sources and windows it reads.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]


def is_snapshot_reducible(node: Node) -> bool:
    """Whether every snapshot of the output depends on those of the inputs at that instant only."""
    match node:
        case TimeWindow(size=1, slide=1, columns=None) | Granularity(granule=1):
            return True
        case ToStream(kind="snapshots"):
            return True
    return node.traits.snapshot_reducible


def regions(plan: Node) -> list[Region]:
    """The largest snapshot-reducible parts of a plan, from the sources up (Kraemer 2007, 10.4).

    One begins behind a source or a window and ends before the next window; an operator with two
    inputs puts those of its inputs together.
    """
    interner = Interner()
    nodes = interner.reachable(interner.intern(plan))
    belongs: dict[int, int] = {}
    for node in nodes:
        if not is_snapshot_reducible(node):
            continue
        mine = id(node)
        belongs[mine] = mine
        for below in {belongs[id(each)] for each in node.inputs if id(each) in belongs}:
            belongs = {key: mine if part == below else part for key, part in belongs.items()}
    return [_region(part, nodes, belongs) for part in dict.fromkeys(belongs.values())]


def _region(part: int, nodes: list[Node], belongs: dict[int, int]) -> Region:
    inside = tuple(node for node in nodes if belongs.get(id(node)) == part)
    read = {id(each): each for node in inside for each in node.inputs}
    members = {id(node) for node in inside}
    return Region(inside, tuple(each for key, each in read.items() if key not in members))
