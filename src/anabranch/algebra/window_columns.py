"""Columns that say which window a row is in."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.source import check_names
from anabranch.errors import PlanError
from anabranch.model.clock import Clock
from anabranch.model.payload import Payload
from anabranch.model.time import BEGINNING

Columns: TypeAlias = tuple[str, str]
"""The names of the columns with the first instant of a window and the first one after it."""


def with_columns(over: Node, columns: Columns | None) -> pa.Schema:
    """The columns of an operator's input, followed by those of the window."""
    if columns is None:
        return over.schema
    kind = clock_of(over).type
    return pa.schema([*over.schema, *(pa.field(name, kind) for name in columns)])


def check_columns(over: Node, columns: Columns, *, where: str) -> None:
    """Refuse names that are taken.

    Raises:
        PlanError: A name occurs twice, is a column of the input already, or is no name.
    """
    for name in columns:
        if name in over.schema.names:
            raise PlanError(
                f"there is already a column '{name}'",
                where=where,
                hint="give the columns of the window other names, or rename the existing column",
            )
    check_names(list(columns), where=where)


def check_points(over: Node, *, where: str) -> None:
    """Refuse input with lifetimes that may be longer than one instant.

    Raises:
        PlanError: It is not known that there are only points.
    """
    if not over.properties.only_points:
        raise PlanError(
            "this window needs points, not lifetimes",
            where=f"{where} over {over.label}",
            hint="name only the start of the rows of the source, or put istream() in front",
        )


def bounds(start: int, end: int, clock: Clock) -> Payload:
    """The values of both columns; what begins before all time begins with it.

    >>> from anabranch.model.clock import INTEGERS
    >>> bounds(5, 7, INTEGERS)
    (5, 7)
    """
    return tuple(clock.column(np.array([max(start, BEGINNING), end], np.int64)).to_pylist())
