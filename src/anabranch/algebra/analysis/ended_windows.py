"""Plans whose windows answer when they have ended, and not before."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.errors import PlanError


def only_ended(node: Node) -> Node:
    """The plan in which windows of the time axis say nothing while they are open.

    Raises:
        PlanError: It has no such windows.
    """
    if not any(isinstance(each, ApplyOperator) for each in node.walk()):
        raise PlanError(
            "emission 'watermark' needs a window of the time axis, and the query has none",
            where=node.label,
            hint="group by a window such as TUMBLING(10 MINUTES), or use emit 'final', which "
            "writes only final results",
        )
    return _ended(node)


def _ended(node: Node) -> Node:
    inputs = tuple(_ended(each) for each in node.inputs)
    found = node if inputs == node.inputs else node.with_inputs(*inputs)
    if isinstance(found, ApplyOperator) and found.open_windows:
        return replace(found, open_windows=False)
    return found
