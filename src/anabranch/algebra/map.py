"""Compute new columns, one row for one row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.filter import check_schema
from anabranch.algebra.node import Unary
from anabranch.algebra.source import check_names
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression, images
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Map(Unary):
    """Replace each payload by its image: out(q, t) = sum of in(p, t) over all p with f(p) = q.

    Duplicates that arise this way stay: a snapshot keeps its size (Kraemer 2007, 8.1.2).
    """

    identity: ClassVar[Identity] = Identity("Map", ("input", "columns"), by_hash=True)

    traits: ClassVar[Traits] = Traits(
        snapshot_reducible=True,
        passes_presence=True,
        keeps_length=True,
        events="kept",
    )

    columns: tuple[tuple[str, Expression], ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise PlanError("a map needs at least one column", hint="name a column to keep")
        for _, expression in self.columns:
            check_schema(expression, self.input)
        check_names([name for name, _ in self.columns], where=self.label)

    @property
    def schema(self) -> pa.Schema:
        """The new columns."""
        return pa.schema([(name, expression.type) for name, expression in self.columns])

    @property
    def remembers(self) -> bool:
        """No: each row leaves by itself."""
        return False

    @property
    def properties(self) -> Properties:
        """Those of the input: lifetimes are not touched, but payloads may become equal."""
        of_input = self.input.properties
        if self.keeps_columns:
            return of_input
        return replace(of_input, no_duplicates=of_input.single, keyed=of_input.single)

    @property
    def keeps_columns(self) -> bool:
        """Whether all columns of the input are there, by whatever name: payloads stay apart."""
        return {each.is_column for _, each in self.columns} >= set(self.input.schema.names)

    @property
    def label(self) -> str:
        """`Map itemID, price * 2 AS double_price`."""
        return "Map " + ", ".join(show_column(name, each) for name, each in self.columns)

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """Every payload replaced by its image; equal images add up."""
        (rows,) = inputs
        image = images([each for _, each in self.columns], list(rows.steps), self.input.schema)
        return rows.map(lambda payload: image[payload])


def show_column(name: str, expression: Expression) -> str:
    """`itemID` for a column that keeps its name, else `price * 2 AS double_price`."""
    return name if expression.is_column == name else f"{expression.sql} AS {name}"
