"""Two maps are one."""

from __future__ import annotations

from collections import Counter

from sqlglot import exp

from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.expressions.rewriting import tree_of
from anabranch.optimizer.pushing import Columns, composed


def merge_maps(node: Node) -> Node | None:
    """Map(Map(x, f), g) -> Map(x, g after f) (K10).

    Not where something that f computes would be computed more than once.
    """
    match node:
        case Map(input=Map(input=x, columns=f), columns=g) if not _repeats(f, g):
            found = [(name, composed(each, dict(f), x.schema)) for name, each in g]
            columns = tuple((name, each) for name, each in found if each is not None)
            if len(columns) == len(g):
                return Map(input=x, columns=columns)
    return None


def _repeats(inner: Columns, outer: Columns) -> bool:
    used: Counter[str] = Counter()
    for _, each in outer:
        if each.is_column is not None:
            used[each.is_column] += 1
        elif each.constant is None:
            used.update(column.parts[0].name for column in tree_of(each).find_all(exp.Column))
    return any(
        used[name] > 1 for name, each in inner if each.is_column is None and each.constant is None
    )
