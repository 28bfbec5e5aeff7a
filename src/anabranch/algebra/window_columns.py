"""Columns that say which window a row is in."""

from __future__ import annotations

from typing import Final, TypeAlias

import pyarrow as pa

from anabranch.algebra.node import Node
from anabranch.algebra.source import Source, check_names
from anabranch.errors import PlanError
from anabranch.model.payload import Payload
from anabranch.model.time import BEGINNING

Columns: TypeAlias = tuple[str, str]
"""The names of the columns with the first instant of a window and the first one after it."""

INSTANT: Final = pa.timestamp("us", tz="UTC")


def has_clock(over: Node) -> bool:
    """Whether a source below counts microseconds."""
    sources = [node for node in over.walk() if isinstance(node, Source)]
    return any(source.timestamps for source in sources)


def bound_type(over: Node) -> pa.DataType:
    """Timestamps where a source below counts microseconds, else chronons."""
    return INSTANT if has_clock(over) else pa.int64()


def with_columns(over: Node, columns: Columns | None) -> pa.Schema:
    """The columns of an operator's input, followed by those of the window."""
    if columns is None:
        return over.schema
    kind = bound_type(over)
    return pa.schema([*over.schema, *(pa.field(name, kind) for name in columns)])


def check_columns(over: Node, columns: Columns, *, where: str) -> None:
    """Refuse names that are taken.

    Raises:
        PlanError: A name occurs twice, is a column of the input already, or is no name.
    """
    for name in columns:
        if name in over.schema.names:
            raise PlanError(
                f"there is a column '{name}' already",
                where=where,
                hint="give the columns of the window other names, or rename the one that is there",
            )
    check_names(list(columns), where=where)


def check_points(over: Node, *, where: str) -> None:
    """Refuse input with lifetimes that may be longer than one instant.

    Raises:
        PlanError: It is not known that there are only points.
    """
    if not over.properties.only_points:
        raise PlanError(
            "such a window needs points, not lifetimes",
            where=f"{where} over {over.label}",
            hint="name only the start of the rows of the source, or put istream() in front",
        )


def bounds(start: int, end: int, kind: pa.DataType) -> Payload:
    """The values of both columns; what begins before all time begins with it.

    >>> bounds(5, 7, pa.int64())
    (5, 7)
    """
    return tuple(pa.array([max(start, BEGINNING), end], pa.int64()).cast(kind).to_pylist())
