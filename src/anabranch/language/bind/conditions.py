"""Conditions, taken apart and put together."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp


def conjuncts(tree: exp.Expr) -> list[exp.Expr]:
    """The parts of a condition that must all hold."""
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        return [*conjuncts(tree.left), *conjuncts(tree.right)]
    return [tree]


def conjunction(parts: Sequence[exp.Expr]) -> exp.Expr | None:
    """One condition out of several; none out of none."""
    return exp.and_(*parts) if parts else None


def has_outer(tree: exp.Expr) -> bool:
    """Whether a resolved expression uses columns of the query around."""
    return any(column.meta.get("outer") for column in tree.find_all(exp.Column))


def only_outer(tree: exp.Expr) -> bool:
    """Whether a resolved expression uses columns, and only those of the query around."""
    columns = list(tree.find_all(exp.Column))
    return bool(columns) and all(column.meta.get("outer") for column in columns)
