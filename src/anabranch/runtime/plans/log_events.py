"""Which events user operators see of a log that may be revised."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.event_identity import keeps_events
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.runtime.sources.spec import FileSource


def with_log_events(node: Node, sources: Mapping[str, Any]) -> Node:
    """The plan, whose user operators see rows of revised logs in their longest lifetimes.

    A revision of another query says what holds at which instants, and names no events. Example: of
    [15, 60) it withdraws [20, 30), and later the log moves the end of [15, 60) to 50. The event
    that begins at 15 ends at 20 by then. By their snapshots both are right, so a coalesce takes
    them in, and what leaves it are events again.
    """
    logs = {
        name
        for name, each in sources.items()
        if isinstance(each, FileSource) and each.form == "log" and each.promise.late == "revise"
    }
    return _with_events(node, logs) if logs else node


def _with_events(node: Node, logs: Collection[str]) -> Node:
    inputs = tuple(_with_events(each, logs) for each in node.inputs)
    if isinstance(node, ApplyOperator):
        inputs = tuple(_coalesced(each, logs) for each in inputs)
    return node if inputs == node.inputs else node.with_inputs(*inputs)


def _coalesced(node: Node, logs: Collection[str]) -> Node:
    """The same where the events of logs come through as they are."""
    if node.properties.only_points or isinstance(node, Coalesce) or node.makes_events:
        return node
    if isinstance(node, Source):
        return Coalesce(input=node) if node.name in logs else node
    if not keeps_events(node):
        return node
    inputs = tuple(_coalesced(each, logs) for each in node.inputs)
    return node if inputs == node.inputs else node.with_inputs(*inputs)
