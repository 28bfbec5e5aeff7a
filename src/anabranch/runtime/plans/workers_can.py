"""Refuse plans with expressions that only Spark evaluates, where Spark does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from anabranch.algebra.node import Node
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression


def find_spark_only(
    node: Node, *, as_written: bool = False, archived: bool = False
) -> PlanError | None:
    """What is left of a plan for workers must be something they can evaluate.

    Gives the refusal of a plan with an expression that is for Spark only. One that was left
    `as_written` may have it where the optimiser would have moved it to a DataFrame; to one that is
    `archived` nothing is moved.
    """
    move = "; or let the optimizer move it there: plan='optimized'" if as_written else ""
    if archived:
        move += "; a DataFrame with an archive is read as it is: compute the column before it "
        move += "becomes a stream"
    for each in node.walk():
        for expression in expressions_of(each):
            if expression.spark_only:
                return PlanError(
                    f"{expression.sql} is evaluated by Spark only",
                    where=each.label,
                    hint="use it in a filter or projection right above a DataFrame source: "
                    f"CREATE STREAM ... SOURCE spark('parquet', 'path'){move}",
                )
    return None


def expressions_of(value: object) -> Iterator[Expression]:
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
        yield from expressions_of(part)
