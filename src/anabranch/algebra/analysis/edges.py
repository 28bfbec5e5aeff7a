"""Rows that hold until the next row of the same key comes: samples of a signal."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.source import Source
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression


def as_edges(leaf: Source, by: Sequence[str]) -> CountWindow:
    """The rows of a source as edges (Ali et al., StreamInsight): sample and hold.

    A row starts at its time and has no end yet; the next row of its key ends it. Every row is an
    event of its own, also beside an equal one. Without columns all rows are samples of one signal.

    Raises:
        PlanError: There is no such column, or rows have ends already.
    """
    where = f"edges of source '{leaf.name}'"
    if not leaf.only_points:
        raise PlanError(
            "rows with an end of their own cannot be edges",
            where=where,
            hint="name the column with the start only: an edge ends when the next row of its key "
            "starts",
        )
    spelled = {name.lower(): name for name in leaf.schema.names}
    for name in by:
        if name.lower() not in spelled:
            raise PlanError(
                f"there is no column '{name}' for the key of the edges",
                where=where,
                hint=f"columns are: {', '.join(leaf.schema.names)}",
            )
    names = dict.fromkeys(spelled[name.lower()] for name in by)
    keys = tuple((name, Expression.column(name, leaf.schema)) for name in names)
    return CountWindow(input=leaf, rows=1, partition_by=keys)
