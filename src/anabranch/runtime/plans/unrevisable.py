"""Whether the answers of a query can be corrected when its sources are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from anabranch.algebra.analysis.reach import way_of_change
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.errors import PlanError


def find_unrevisable(node: Node, sources: Mapping[str, Any]) -> PlanError | None:
    """Why late rows of a source with LATE REVISE cannot correct a query; None if they can."""
    leaves = _sources(node)
    revised = [name for name in leaves if name in sources and _is_revised(sources[name])]
    for name in revised:
        found = way_of_change(node, name)
        if found.way == "refused":
            return PlanError(
                f"the answers of the query cannot be corrected when source '{name}' is",
                where=found.reason,
                hint="declare the source with LATE DROP, LATE ADJUST or LATE FAIL for this query, "
                "or start it with revisions='ignore' (--revisions ignore)",
            )
    grid = next((each for each in node.walk() if _begins_by_shard(each)), None)
    if grid is not None and changes_state(node, sources):
        return PlanError(
            f"'{grid.label}' cannot be corrected when source '{revised[0]}' is",
            where="its rows hold for a while, and shards begin their windows at different times",
            hint="use windows over rows that are points (distinct() and joins come after a window: "
            "stream.window('1 hour', '1 hour', columns=True).distinct()), or declare the source "
            "with LATE DROP, LATE ADJUST or LATE FAIL for this query",
        )
    copies = [name for name, leaf in leaves.items() if leaf.copies]
    if revised and copies:
        return PlanError(
            f"source '{copies[0]}' has copies, which cannot be replayed",
            where=f"the query also reads '{revised[0]}', which has LATE REVISE",
            hint="merge the copies in a query of its own, and read its log",
        )
    return None


def changes_state(node: Node, sources: Mapping[str, Any]) -> bool:
    """Whether a correction of a source with LATE REVISE changes the state of a query."""
    revised = [name for name in _sources(node) if name in sources and _is_revised(sources[name])]
    return any(way_of_change(node, name).way == "swap" for name in revised)


def _begins_by_shard(node: Node) -> bool:
    """Whether what shards remember of it depends on when each of them has begun."""
    if not isinstance(node, ApplyOperator):
        return False
    return node.window.on_grid and not node.input.properties.only_points


def _sources(node: Node) -> dict[str, Source]:
    every: Iterable[Node] = node.walk()
    return {each.name: each for each in every if isinstance(each, Source)}


def _is_revised(source: Any) -> bool:
    return bool(source.promise.late == "revise")
