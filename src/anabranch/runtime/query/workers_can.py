"""Refuse plans with expressions that only Spark evaluates, where Spark does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from anabranch.algebra.node import Node
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression


def refuse_spark_only(node: Node) -> None:
    """What is left of a plan for workers must be something they can evaluate.

    Raises:
        PlanError: An expression is for Spark only.
    """
    for each in node.walk():
        for expression in _expressions(each):
            if expression.spark_only:
                raise PlanError(
                    f"{expression.sql} is evaluated by Spark only",
                    where=each.label,
                    hint="use it in a filter or projection right above a DataFrame source: "
                    "CREATE STREAM ... SOURCE spark('parquet', 'path')",
                )


def _expressions(value: object) -> Iterator[Expression]:
    """All expressions of a node, but not those of its inputs."""
    parts = [getattr(value, field.name) for field in fields(value)] if is_dataclass(value) else []
    for part in parts:
        yield from _inside(part)


def _inside(part: object) -> Iterator[Expression]:
    if isinstance(part, Expression):
        yield part
    elif isinstance(part, tuple):
        for each in part:
            yield from _inside(each)
    elif is_dataclass(part) and not isinstance(part, Node | type):
        yield from _expressions(part)
