"""Expressions that do not give the same for the same row: where they may stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression


def expressions_in(node: Node) -> Iterator[Expression]:
    """All expressions that a node itself evaluates."""
    for each in fields(node):  # type: ignore[arg-type]
        yield from _found(getattr(node, each.name))


def _found(value: Any) -> Iterator[Expression]:
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _found(each)
    elif is_dataclass(value) and not isinstance(value, type | Node):
        for part in fields(value):
            yield from _found(getattr(value, part.name))


def by_chance(node: Node) -> str | None:
    """The name of a function in the node that may give something else each time, or None."""
    for expression in expressions_in(node):
        for function in expression.functions:
            if not function.deterministic:
                return function.name
    return None


def check_chance(plan: Node) -> None:
    """Refuse functions that are not deterministic where a row may have to be computed again.

    A correction names an event by its payload. What was computed by chance cannot be computed a
    second time, so such a function must see every row once: in a projection or a condition, over a
    stream that is never corrected.

    Raises:
        PlanError: One stands elsewhere.
    """
    for node in plan.walk():
        name = by_chance(node)
        if name is None:
            continue
        if not isinstance(node, Map | Filter):
            raise PlanError(
                f"the function '{name}' is not deterministic and is not allowed here",
                where=node.label,
                hint=f"compute it in a nested query: (SELECT ..., {name}(...) AS value FROM ...)",
            )
        if not node.input.properties.insert_only:
            raise PlanError(
                f"the function '{name}' is not deterministic, and its rows may be corrected",
                where=node.label,
                hint="use it over a stream without corrections, such as rows with ORDERED BY, "
                "below joins and aggregates",
            )
