"""What is known of one side of an equation holds for the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.node import Node
from anabranch.expressions.rewriting import rename
from anabranch.optimizer.equations import equations
from anabranch.optimizer.facts import facts, holds
from anabranch.optimizer.failing import may_fail
from anabranch.optimizer.pushing import filtered

_RECEIVERS: Final[Mapping[JoinKind, tuple[str, ...]]] = {
    "inner": ("right", "left"),
    "left": ("right",),
    "right": ("left",),
    "full": (),
    "semi": ("right", "left"),
    "anti": ("right",),
}
"""The sides whose rows are of no use without a partner."""


def derive_join_filter(node: Node) -> Node | None:
    """Join(Filter(x, p(a)), y, a = b) -> Join(Filter(x, p(a)), Filter(y, p(b)), a = b).

    For the sides whose rows do not leave without a partner.
    """
    match node:
        case Join() if node.predicate is not None:
            for side in _RECEIVERS[node.kind]:
                found = _derived(node, to_right=side == "right")
                if found is not None and side == "right":
                    return replace(node, right=found)
                if found is not None:
                    return replace(node, left=found)
    return None


def _derived(join: Join, *, to_right: bool) -> Node | None:
    pairs = equations(join)
    names = dict(pairs) if to_right else {theirs: mine for mine, theirs in pairs}
    giver, receiver = (join.left, join.right) if to_right else (join.right, join.left)
    if not names:
        return None
    for fact in facts(giver, frozenset(names)):
        if not may_fail(fact):
            condition = rename(fact, names, receiver.schema)
            if not holds(receiver, condition):
                return filtered(receiver, [condition])
    return None
