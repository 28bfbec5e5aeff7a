"""Which maps keep the order that ties are broken by."""

from __future__ import annotations

from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import rename
from anabranch.optimizer.pushing import Columns


def order_kept(columns: Columns, over: Node, used: frozenset[str]) -> dict[str, str] | None:
    """New names of the columns of a node, if a map of it keeps the order of rows.

    Rows are ordered by expressions over the columns in `used`, then by all columns from left to
    right. The order is kept where the map begins with the first columns, as they are, and takes
    everything else from these; or where there is never more than one row to be ordered.
    """
    names: dict[str, str] = {}
    if over.properties.single:
        for name, each in columns:
            if each.is_column is not None:
                names.setdefault(each.is_column, name)
        return names if used <= names.keys() else None
    for (name, each), old in zip(columns, over.schema.names):
        if each.is_column != old:
            break
        names[old] = name
    rest = columns[len(names) :]
    if not names or not used <= names.keys():
        return None
    return names if all(each.columns <= names.keys() for _, each in rest) else None


def renamed_keys(keys: Columns, names: dict[str, str], over: Node) -> Columns:
    """Named expressions over columns that have other names now."""
    return tuple((name, rename(each, names, over.schema)) for name, each in keys)


def columns_of(*expressions: Expression) -> frozenset[str]:
    """All columns that some expressions need."""
    nothing: frozenset[str] = frozenset()
    return nothing.union(*(each.columns for each in expressions))
