"""How far the order of a stream goes: whether it holds for what is not settled yet."""

from __future__ import annotations

from anabranch.algebra.node import Node
from anabranch.algebra.source import Source


def is_ordered_when_settled(node: Node) -> bool:
    """Whether elements of a stream in order may still come in any order behind its stable point.

    Shards put their own elements in order, and each is as far as its own: one may let go what
    starts at 7 when another still holds what starts at 3. What is before the stable point of all of
    them is complete. A source that is read as it is, with steps that keep nothing, has no shards.
    """
    return any(
        each.settles_order if isinstance(each, Source) else each.remembers for each in node.walk()
    )
