"""Columns that are never NULL."""

from __future__ import annotations

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node, Unary


def is_never_null(node: Node, column: str) -> bool:
    """Whether a column of a plan is known to be without NULLs: counts, and constants."""
    match node:
        case Aggregation():
            call = dict(node.aggregates).get(column)
            if call is not None:
                return call.definition.empty is not None
            key = dict(node.group_by)[column]
            return key.is_column is not None and is_never_null(node.input, key.is_column)
        case ApplyOperator():
            group = dict(node.group_by).get(column)
            if group is None:
                return column in (node.columns or ())
            return group.is_column is not None and is_never_null(node.input, group.is_column)
        case Map():
            value = dict(node.columns)[column]
            if value.constant is not None:
                return bool(value.constant[0].is_valid)
            return value.is_column is not None and is_never_null(node.input, value.is_column)
        case Filter():
            text = node.predicate.sql
            return text == f"NOT {column} IS NULL" or is_never_null(node.input, column)
        case Join(kind="inner"):
            side = node.left if column in node.left.schema.names else node.right
            return is_never_null(side, column)
        case Join(kind="semi" | "anti" | "left") if column in node.left.schema.names:
            return is_never_null(node.left, column)
        case Unary() if column in node.input.schema.names:
            return is_never_null(node.input, column)
    return False
