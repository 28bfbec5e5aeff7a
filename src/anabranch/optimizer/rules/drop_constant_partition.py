"""A group that is the same for all rows."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.top_k import TopK


def drop_constant_partition(node: Node) -> Node | None:
    """CountWindow(x, n, by constant) -> CountWindow(x, n) (W9); sessions and TopK alike."""
    match node:
        case (
            CountWindow(partition_by=groups)
            | SessionWindow(partition_by=groups)
            | TopK(partition_by=groups)
        ):
            kept = tuple((name, key) for name, key in groups if key.constant is None)
            if len(kept) < len(groups):
                return replace(node, partition_by=kept)
    return None
