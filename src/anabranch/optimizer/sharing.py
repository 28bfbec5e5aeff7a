"""Sub-plans that several plans have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from anabranch.algebra.clip import Clip
from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.union import Union
from anabranch.optimizer.interning import Interner

_CHEAP: Final = (Source, Filter, Map, Union, Shift, Clip)
"""What neither holds rows nor says for how long others do."""


def common_subplans(plans: Sequence[Node]) -> list[Node]:
    """The largest sub-plans that occur in more than one plan, those with most operators first.

    Only what has a window or an operator with state is worth sharing. A sub-plan of one that is
    listed is listed, too, if it also occurs outside of it.
    """
    interner = Interner()
    roots = [interner.intern(plan) for plan in plans]
    counts = Counter(key for root in roots for key in interner.below(root))
    common = {key for key, count in counts.items() if count > 1}
    nodes = {id(node): node for node in interner.reachable(*roots)}
    outside = {id(root) for root in roots}
    outside |= {
        id(each) for key, node in nodes.items() if key not in common for each in node.inputs
    }
    found = [
        node
        for key, node in nodes.items()
        if key in common and key in outside and is_worthwhile(interner.below(node).values())
    ]
    return sorted(found, key=lambda node: len(interner.below(node)), reverse=True)


def is_worthwhile(nodes: Iterable[Node]) -> bool:
    """Whether a plan of these nodes holds rows, or says for how long others do."""
    return any(not isinstance(node, _CHEAP) for node in nodes)
