"""Columns that nobody needs are left behind early."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.time_window import TimeWindow
from anabranch.optimizer.ordering import columns_of
from anabranch.optimizer.pushing import filtered, mapped, projected
from anabranch.optimizer.rebuilding import rebuilt


def prune_columns(node: Node) -> Node | None:
    """op(x) -> op(Map(x, columns that op reads)), for an aggregate, or a join below a map (K11).

    Also for modules, windows that show their bounds, and sessions.

    Only where payloads are not compared: never below distinct, a set operation, a count window,
    a top-k or what looks at the lifetimes of each payload. The right side of semi- and
    anti-joins keeps what their predicates ask for.
    """
    match node:
        case _ if node.reads is not None:
            (x,) = node.inputs
            narrow = _narrow(x, columns_of(*node.reads))
            return None if narrow is None else rebuilt(node, (narrow,))
        case Join(kind="semi" | "anti"):
            needed = frozenset() if node.predicate is None else node.predicate.columns
            narrow = _narrow(node.right, needed)
            return None if narrow is None else rebuilt(node, (node.left, narrow))
        case Map(input=x, columns=columns):
            below = _below(x, columns_of(*(each for _, each in columns)))
            return None if below is None else mapped(node, below)
    return None


def _below(node: Node, needed: frozenset[str]) -> Node | None:
    """An operator, perhaps under filters, whose inputs have no other columns than needed."""
    match node:
        case Filter(input=x, predicate=p):
            below = _below(x, needed | p.columns)
            return None if below is None else filtered(below, [p])
        case Join(left=x, right=y, predicate=p):
            asked = needed if p is None else needed | p.columns
            left = _narrow(x, asked)
            right = None if node.kind in ("semi", "anti") else _narrow(y, asked)
            if left is None and right is None:
                return None
            return rebuilt(node, (x if left is None else left, y if right is None else right))
        case TimeWindow(input=x, columns=bounds) if bounds is not None:
            narrow = _narrow(x, needed)
            return None if narrow is None else replace(node, input=narrow)
        case SessionWindow(input=x, partition_by=groups):
            narrow = _narrow(x, needed | columns_of(*(key for _, key in groups)))
            return None if narrow is None else rebuilt(node, (narrow,))
    return None


def _narrow(node: Node, needed: Iterable[str]) -> Node | None:
    """A node with only those columns; None if it has no others."""
    kept = [name for name in node.schema.names if name in set(needed)]
    kept = kept or [min(node.schema.names, key=lambda name: _width(node.schema, name))]
    return projected(node, kept) if len(kept) < len(node.schema) else None


def _width(schema: pa.Schema, name: str) -> int:
    """Bits per value; texts and nested values count as long."""
    kind = schema.field(name).type
    return int(kind.bit_width) if pa.types.is_primitive(kind) else 1_000
