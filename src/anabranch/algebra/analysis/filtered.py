"""Which rows of a source pass the filters right above it, as far as texts in columns tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from anabranch.algebra.filter import Filter
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjuncts, tree_of

Texts: TypeAlias = Mapping[str, frozenset[str]]
"""By column, the texts of which a row must have one to matter."""


def passing_texts(nodes: Sequence[Node]) -> dict[str, Texts]:
    """Per source, the texts without which a row is filtered out wherever the source is read.

    Rows without them need not be read again: plans drop them before anything else. With
    `WHERE symbol = 'IBM'` that are all rows of other symbols. A source that is read twice has the
    texts of both.
    """
    found: dict[str, list[Texts]] = {}
    for node in nodes:
        for name, texts in _occurrences(node, {}):
            found.setdefault(name, []).append(texts)
    return {
        name: {
            column: frozenset().union(*(each[column] for each in every))
            for column in every[0]
            if all(column in each for each in every)
        }
        for name, every in found.items()
    }


def _occurrences(node: Node, texts: Texts) -> Iterator[tuple[str, Texts]]:
    """Every leaf, with what the filters right above it want."""
    if isinstance(node, Source):
        yield node.name, texts
    elif isinstance(node, Filter):
        wanted = dict(texts)
        for condition in conjuncts(node.predicate):
            asked = _asked(condition)
            if asked is not None:
                column, values = asked
                wanted[column] = wanted.get(column, values) & values
        yield from _occurrences(node.input, wanted)
    else:
        for each in node.inputs:
            yield from _occurrences(each, {})


def _asked(condition: Expression) -> tuple[str, frozenset[str]] | None:
    """The column of texts that a condition compares with texts, and these; None for others."""
    tree = tree_of(condition)
    if isinstance(tree, exp.EQ):
        sides = [side.unnest() for side in (tree.left, tree.right)]
        column = next((side for side in sides if isinstance(side, exp.Column)), None)
        values = [side for side in sides if side is not column]
    elif isinstance(tree, exp.In) and not tree.args.get("query"):
        column, values = tree.this.unnest(), [each.unnest() for each in tree.expressions]
    else:
        return None
    if not isinstance(column, exp.Column) or column.name not in condition.schema.names:
        return None
    is_text = pa.types.is_string(condition.schema.field(column.name).type)
    if not is_text or not values:
        return None
    if not all(isinstance(each, exp.Literal) and each.is_string for each in values):
        return None
    return column.name, frozenset(each.this for each in values)
