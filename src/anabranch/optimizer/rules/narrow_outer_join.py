"""An outer join whose padded rows are left out anyway."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjuncts
from anabranch.optimizer.failing import may_fail

_NARROWER: Final[Mapping[tuple[JoinKind, str], JoinKind]] = {
    ("left", "right"): "inner",
    ("right", "left"): "inner",
    ("full", "right"): "right",
    ("full", "left"): "left",
}
"""What is left of a kind of join without the rows whose columns of a side are padded."""


def narrow_outer_join(node: Node) -> Node | None:
    """Filter(Left join(x, y), p) -> Filter(Join(x, y), p), if p is not true for NULLs of y."""
    match node:
        case Filter(input=Join(kind="left" | "right" | "full") as join, predicate=p):
            for side, over in (("left", join.left), ("right", join.right)):
                kind = _NARROWER.get((join.kind, side))
                if kind is not None and any(_rejects(each, over) for each in conjuncts(p)):
                    return replace(node, input=replace(join, kind=kind))
    return None


def _rejects(condition: Expression, padded: Node) -> bool:
    """Whether a condition on one side is not true where all its columns are NULL."""
    if not condition.columns or not condition.columns <= set(padded.schema.names):
        return False
    if may_fail(condition):
        return False
    nulls = [pa.nulls(1, field.type) for field in condition.schema]
    row = pa.RecordBatch.from_arrays(nulls, names=condition.schema.names)
    return bool(condition.evaluate(row, 1).to_pylist() != [True])
