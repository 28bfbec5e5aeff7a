"""Columns in which no two rows agree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.top_k import TopK
from anabranch.optimizer.equations import equations
from anabranch.optimizer.pushing import Columns, plain_columns

Keys: TypeAlias = frozenset[frozenset[str]]

NONE: Keys = frozenset()


def no_duplicates(node: Node) -> bool:
    """Whether no payload holds twice at an instant."""
    return node.properties.no_duplicates or bool(keys(node))


def is_key(columns: Iterable[str], node: Node) -> bool:
    """Whether at no instant two rows agree in all these columns."""
    given = frozenset(columns)
    return any(key <= given for key in keys(node))


def keys(node: Node) -> Keys:
    """Sets of columns in which at no instant two rows agree; one row twice counts as two."""
    properties = node.properties
    found = _keys(node)
    if properties.single:
        found |= {frozenset()}
    if properties.no_duplicates:
        found |= {frozenset(node.schema.names)}
    return found


def lasting_keys(node: Node) -> Keys:
    """Sets of columns whose values occur at one instant in all of time, once."""
    match node:
        case Source(only_points=True):
            return _declared(node)
        case Map():
            return _mapped(lasting_keys(node.input), node.columns)
        case Join(kind="semi" | "anti"):
            return lasting_keys(node.left)
        case SetOperation(kind="difference" | "strict difference" | "intersection"):
            return lasting_keys(node.left)
    return lasting_keys(*node.inputs) if node.traits.keeps_keys == "in all of time" else NONE


def _keys(node: Node) -> Keys:
    match node:
        case Source():
            return _declared(node)
        case TimeWindow(size=1, slide=1):
            return keys(node.input)
        case TimeWindow():
            # An instant that is held once is in no window twice.
            return lasting_keys(node.input)
        case Map():
            return _mapped(keys(node.input), node.columns)
        case Aggregation():
            return frozenset({frozenset(name for name, _ in node.group_by)})
        case ApplyOperator():
            return _windows(node)
        case TopK():
            return keys(node.input) | (_parts(node.partition_by) if node.k == 1 else NONE)
        case CountWindow(rows=1):
            return _parts(node.partition_by)
        case SetOperation(kind="difference" | "strict difference"):
            return keys(node.left)
        case SetOperation(kind="intersection"):
            return keys(node.left) | keys(node.right)
        case Join():
            return _joined(node)
    return keys(*node.inputs) if node.traits.keeps_keys != "none" else NONE


def _declared(source: Source) -> Keys:
    names = set(source.schema.names)
    return frozenset(frozenset(key) for key in source.unique if names >= set(key))


def _mapped(given: Keys, columns: Columns) -> Keys:
    kept: dict[str, str] = {}
    for name, each in columns:
        if each.is_column is not None:
            kept.setdefault(each.is_column, name)
    return frozenset(frozenset(kept[name] for name in key) for key in given if kept.keys() >= key)


def _parts(partition_by: Columns) -> Keys:
    plain = plain_columns(partition_by)
    return NONE if plain is None else frozenset({frozenset(plain.values())})


def _windows(node: ApplyOperator) -> Keys:
    """One row per group and window, where modules are aggregates."""
    groups = frozenset(name for name, _ in node.group_by)
    if not node.one_row:
        return NONE
    if not node.overlaps:
        return frozenset({groups})
    return NONE if node.columns is None else frozenset({groups | set(node.columns)})


def _joined(join: Join) -> Keys:
    left, right = keys(join.left), keys(join.right)
    if join.kind in ("semi", "anti"):
        return left
    if join.kind == "full":
        return NONE
    pairs = equations(join)
    found: set[frozenset[str]] = set()
    # Where a row finds at most one partner, what tells rows of its side apart tells pairs apart.
    if join.kind in ("inner", "left") and is_key((theirs for _, theirs in pairs), join.right):
        found |= left
    if join.kind in ("inner", "right") and is_key((mine for mine, _ in pairs), join.left):
        found |= right
    if join.kind == "inner":
        found |= {mine | theirs for mine in left for theirs in right}
    return frozenset(found)
